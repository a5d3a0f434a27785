// Cases of the panel kernels: a layer forward and back, rows cut into panels, against autograd.

#include "kernels/dense_grad/dense_grad_op.h"

#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "kernels/dense_grad/dense_grad.h"

namespace maglev {
namespace {

struct LayerCase {
  int64_t rows, in, out;
  DenseEnd end;
  bool dropout;
};

// x, weight, bias, gain, shift in this order
at::Tensor trained_layer_reference(const Tensors& in, DenseEnd end, const at::Tensor& factor) {
  auto z = at::linear(in[0], in[1], in[2]);
  // dropout stands between the product and its norm
  if (factor.defined()) z = z * factor.to(z.scalar_type());
  if (end == DenseEnd::none) return z;
  auto u = at::layer_norm(z, {z.size(1)}, in[3], in[4], kLayerNormEps);
  if (end == DenseEnd::mish) return at::mish(u);
  return at::softmax(u.view({u.size(0), -1, kSimNormGroup}), -1).view(u.sizes());
}

// a layer's panels, one behind the other, as a network of many panels holds them
class TrainedPanelLayer {
 public:
  TrainedPanelLayer(const LayerCase& c, const Tensors& in, const at::Tensor& factor) : case_(c) {
    for (const auto& t : in) in_.push_back(t.detach().contiguous());
    panels_ = (c.rows + kPanelRows - 1) / kPanelRows;
    x_ = to_panels(in_[0]), y_ = at::zeros({panels_, c.out, kPanelRows});
    xhat_ = at::zeros_like(y_), rstd_ = at::zeros({panels_, kPanelRows});
    if (factor.defined()) factor_ = to_panels(factor);
    packed_ = packed(c.out, c.in, c.in, 1), transpose_ = packed(c.in, c.out, 1, c.in);
  }

  at::Tensor forward() {
    for (int64_t p = 0; p < panels_; ++p) {
      const DenseSegment segment{x_[p].const_data_ptr<float>(), 0, case_.in};
      const bool end = case_.end != DenseEnd::none;
      dense_cpu({.weight = packed_.const_data_ptr<float>(),
                 .in = case_.in,
                 .out = case_.out,
                 .start = in_[2].const_data_ptr<float>(),
                 .segments = {&segment, 1},
                 .end = case_.end,
                 .gain = end ? in_[3].const_data_ptr<float>() : nullptr,
                 .shift = end ? in_[4].const_data_ptr<float>() : nullptr,
                 .factor = factor_of(p),
                 .y = y_[p].data_ptr<float>(),
                 .xhat = end ? xhat_[p].data_ptr<float>() : nullptr,
                 .rstd = end ? rstd_[p].data_ptr<float>() : nullptr,
                 .stride = kPanelRows,
                 .rows = kPanelRows});
    }
    return to_rows(y_);
  }

  Tensors backward(const at::Tensor& grad) {
    // the outputs' gradient becomes dz where it lies
    auto dz = to_panels(grad), dx = at::zeros_like(x_);
    auto columns = at::zeros({panels_, dense_columns_size(case_.in, kPanelRows)});
    Tensors grads{at::Tensor(), at::empty_like(in_[1]), at::empty_like(in_[2])};
    if (case_.end != DenseEnd::none)
      grads.push_back(at::zeros_like(in_[3])), grads.push_back(at::zeros_like(in_[4]));
    // panel by panel: through the end, inputs as columns, then the inputs' gradient
    for (int64_t p = 0; p < panels_; ++p) {
      if (case_.end != DenseEnd::none)
        dense_end_grad_cpu({.end = case_.end,
                            .out = case_.out,
                            .gain = in_[3].const_data_ptr<float>(),
                            .shift = in_[4].const_data_ptr<float>(),
                            .y = y_[p].const_data_ptr<float>(),
                            .xhat = xhat_[p].const_data_ptr<float>(),
                            .rstd = rstd_[p].const_data_ptr<float>(),
                            .factor = factor_of(p),
                            .dy = dz[p].data_ptr<float>(),
                            .d_gain = grads[3].data_ptr<float>(),
                            .d_shift = grads[4].data_ptr<float>(),
                            .stride = kPanelRows});
      dense_columns_cpu({.x = x_[p].const_data_ptr<float>(),
                         .in = case_.in,
                         .stride = kPanelRows,
                         .columns = columns[p].data_ptr<float>()});
      // in two parts or whole, written or added to what is there, from the transpose or without it,
      // panel by panel in turn; of features behind the first ones never from the transpose
      const int64_t part_size = p % 3 == 2 ? case_.in : case_.in / 2;
      for (int64_t part : {0, 1}) {
        const bool add = (p + part) % 2 == 1, transpose = p / 2 % 2 == 0;
        const int64_t first = part * part_size;
        auto into = dx[p].narrow(0, first, part ? case_.in - part_size : part_size);
        if (into.numel() == 0) continue;
        into.fill_(1);
        dense_input_grad_cpu({.weight = in_[1].const_data_ptr<float>(),
                              .transpose = transpose ? transpose_.const_data_ptr<float>() : nullptr,
                              .in = case_.in,
                              .out = case_.out,
                              .dz = dz[p].const_data_ptr<float>(),
                              .first = first,
                              .features = into.size(0),
                              .dx = into.data_ptr<float>(),
                              .add = add,
                              .stride = kPanelRows});
        if (add) into.sub_(1);
      }
    }
    // weights in two tasks over all panels, as a learner cuts them
    const int64_t half = case_.out / 2;
    for (int64_t part : {0, 1})
      dense_weight_grad_cpu({.columns = columns.const_data_ptr<float>(),
                             .columns_step = columns.size(1),
                             .dz = dz.const_data_ptr<float>(),
                             .dz_step = dz.size(1) * dz.size(2),
                             .panels = panels_,
                             .stride = kPanelRows,
                             .in = case_.in,
                             .first = part * half,
                             .count = part ? case_.out - half : half,
                             .d_weight = grads[1].data_ptr<float>(),
                             .d_bias = grads[2].data_ptr<float>()});
    grads[0] = to_rows(dx);
    return grads;
  }

 private:
  at::Tensor to_panels(const at::Tensor& rows) const {
    // columns behind the last row are 0
    auto padded = at::zeros({panels_ * kPanelRows, rows.size(1)});
    padded.narrow(0, 0, case_.rows).copy_(rows.detach());
    return padded.view({panels_, kPanelRows, -1}).transpose(1, 2).contiguous();
  }
  at::Tensor to_rows(const at::Tensor& panels) const {
    return panels.transpose(1, 2)
        .reshape({panels_ * kPanelRows, panels.size(1)})
        .narrow(0, 0, case_.rows)
        .contiguous();
  }
  at::Tensor packed(int64_t out, int64_t in, int64_t out_step, int64_t in_step) const {
    auto to = at::full({packed_dense_size(out, in)}, NAN);
    pack_dense({.weight = in_[1].const_data_ptr<float>(),
                .out = out,
                .in = in,
                .out_step = out_step,
                .in_step = in_step,
                .packed = to.data_ptr<float>()});
    return to;
  }
  const float* factor_of(int64_t p) const {
    return factor_.defined() ? factor_[p].const_data_ptr<float>() : nullptr;
  }

  LayerCase case_;
  int64_t panels_;
  Tensors in_;
  at::Tensor x_, y_, xhat_, rstd_, factor_, packed_, transpose_;
};

KernelCase layer_case(const LayerCase& c) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(c.rows * c.in + c.out));
  Tensors inputs{at::randn({c.rows, c.in}, gen), at::randn({c.out, c.in}, gen) / std::sqrt(c.in),
                 at::randn({c.out}, gen)};
  if (c.end != DenseEnd::none) {
    inputs.push_back(at::randn({c.out}, gen));
    inputs.push_back(at::randn({c.out}, gen));
  }
  at::Tensor factor;
  if (c.dropout) factor = (at::rand({c.rows, c.out}, gen) >= 0.1).to(at::kFloat) / 0.9;
  const char* ends[] = {"none", "mish", "simnorm"};
  // over inputs, two moments over outputs and once more on the way back, then rows or outputs
  const int64_t sums = c.in + 4 * c.out + std::max(c.rows, c.out);
  return {
      .name = "rows=" + std::to_string(c.rows) + " " + std::to_string(c.in) + "->" +
              std::to_string(c.out) + " " + ends[int(c.end)] + (c.dropout ? " dropout" : ""),
      .inputs = inputs,
      .reference =
          [=](const Tensors& in) { return Tensors{trained_layer_reference(in, c.end, factor)}; },
      .fused =
          [=](const Tensors& in) { return Tensors{TrainedPanelLayer(c, in, factor).forward()}; },
      .backward =
          [=](const Tensors& in, const Tensors& grad) {
            TrainedPanelLayer layer(c, in, factor);
            layer.forward();
            return layer.backward(grad[0]);
          },
      .tolerance = Tolerance::of_sums(sums),
      .bytes = (c.rows * (c.in + c.out) + c.in * c.out) * 4,
      .flops = 2 * c.rows * c.in * c.out};
}

std::vector<KernelCase> dense_grad_cases(at::Device device) {
  std::vector<KernelCase> list = dense_end_grad_cases(device);
  if (!device.is_cpu()) return list;
  for (const LayerCase& c : {LayerCase{64, 12, 7, DenseEnd::none, false},
                             {1, 5, 8, DenseEnd::mish, false},
                             {100, 70, 16, DenseEnd::simnorm, false},
                             {130, 72, 40, DenseEnd::mish, true},
                             {1700, 68, 24, DenseEnd::mish, false}})
    list.push_back(layer_case(c));
  for (auto& c : dense_grad_bf16_cases()) list.push_back(std::move(c));
  return list;
}

}  // namespace

namespace kernels::dense_grad {
KernelEntry entry() {
  return {"dense_grad", "gradients of a dense layer on panels: end, inputs, weights",
          dense_grad_cases};
}
}  // namespace kernels::dense_grad

}  // namespace maglev
