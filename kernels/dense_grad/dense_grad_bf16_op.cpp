// Cases of a layer's panels in bfloat16, forward and back, against autograd.

#include "kernels/dense_grad/dense_grad_bf16.h"

#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "kernels/dense/dense_bf16.h"
#include "kernels/dense_grad/dense_grad_op.h"

namespace maglev {
namespace {

struct PairLayerCase {
  int64_t rows, in, out, stride;
  DenseEnd end;
};

at::Tensor pair_words(int64_t panels, int64_t words) {
  return at::zeros({panels, words}, at::kInt);
}
uint32_t* words_at(const at::Tensor& words) {
  return reinterpret_cast<uint32_t*>(words.data_ptr<int32_t>());
}

// a layer's panels, one behind the other, as a network of many panels holds them
class TrainedPairLayer {
 public:
  TrainedPairLayer(const PairLayerCase& c, const Tensors& in)
      : case_(c), panels_((c.rows + c.stride - 1) / c.stride) {
    for (const auto& t : in) in_.push_back(t.detach().contiguous());
    z_ = at::zeros({panels_, c.out, c.stride});
    xhat_ = at::zeros_like(z_), rstd_ = at::zeros({panels_, c.stride});
    packed_ = pair_words(1, pair_blocks_size(c.out, pairs(c.in)));
    transpose_ = pair_words(1, pair_blocks_size(c.in, pairs(c.out)));
    for (bool back : {false, true})
      pack_dense_bf16({.weight = in_[1].const_data_ptr<float>(),
                       .out = back ? c.in : c.out,
                       .in = back ? c.out : c.in,
                       .out_step = back ? 1 : c.in,
                       .in_step = back ? c.in : 1,
                       .pairs = pairs(back ? c.out : c.in),
                       .first = 0,
                       .packed = words_at(back ? transpose_ : packed_)});
    const auto x = to_panels(in_[0]);
    x_ = pair_words(panels_, pairs(c.in) * c.stride);
    for (int64_t p = 0; p < panels_; ++p)
      panel_to_pairs(x[p].const_data_ptr<float>(), c.in, c.stride, c.stride, words_at(x_[p]));
  }

  /// What the next layer's products read: rounded behind an end.
  at::Tensor forward() {
    auto y = pair_words(panels_, pairs(case_.out) * case_.stride);
    const bool end = case_.end != DenseEnd::none;
    for (int64_t p = 0; p < panels_; ++p) {
      const DenseSegmentBf16 segment{words_at(x_[p]), 0, pairs(case_.in)};
      dense_bf16_cpu({.weight = words_at(packed_),
                      .pairs = pairs(case_.in),
                      .out = case_.out,
                      .start = in_[2].const_data_ptr<float>(),
                      .segments = {&segment, 1},
                      .sums = z_[p].data_ptr<float>(),
                      .stride = case_.stride,
                      .rows = case_.stride});
      if (end)
        dense_panel_end_cpu({.end = case_.end,
                             .out = case_.out,
                             .gain = in_[3].const_data_ptr<float>(),
                             .shift = in_[4].const_data_ptr<float>(),
                             .z = z_[p].data_ptr<float>(),
                             .pairs = words_at(y[p]),
                             .xhat = xhat_[p].data_ptr<float>(),
                             .rstd = rstd_[p].data_ptr<float>(),
                             .stride = case_.stride,
                             .rows = case_.stride});
    }
    if (!end) return to_rows(z_);
    // a word's halves are two features
    y_ = y.view(at::kBFloat16)
             .view({panels_, case_.out / 2, case_.stride, 2})
             .transpose(2, 3)
             .reshape({panels_, case_.out, case_.stride})
             .to(at::kFloat);
    return to_rows(y_);
  }

  Tensors backward(const at::Tensor& grad) {
    const auto& [rows, in, out, stride, end] = case_;
    auto dz = to_panels(grad), dx = at::zeros({panels_, in, stride});
    Tensors grads{at::Tensor(), at::empty_like(in_[1]), at::zeros_like(in_[2])};
    if (end != DenseEnd::none)
      grads.push_back(at::zeros_like(in_[3])), grads.push_back(at::zeros_like(in_[4]));
    auto columns = pair_words(panels_, dense_columns_size(in, stride) / 2);
    auto paired = pair_words(panels_, pair_blocks_size(out, stride / 2));
    auto dz_pairs = pair_words(1, pairs(out) * stride);
    for (int64_t p = 0; p < panels_; ++p) {
      if (end != DenseEnd::none)
        dense_end_grad_cpu({.end = end,
                            .out = out,
                            .gain = in_[3].const_data_ptr<float>(),
                            .shift = in_[4].const_data_ptr<float>(),
                            .y = y_[p].const_data_ptr<float>(),
                            .xhat = xhat_[p].const_data_ptr<float>(),
                            .rstd = rstd_[p].const_data_ptr<float>(),
                            .factor = nullptr,
                            .dy = dz[p].data_ptr<float>(),
                            .d_gain = grads[3].data_ptr<float>(),
                            .d_shift = grads[4].data_ptr<float>(),
                            .stride = stride});
      dense_grad_pairs_cpu({.dz = dz[p].const_data_ptr<float>(),
                            .out = out,
                            .stride = stride,
                            .pairs = words_at(dz_pairs),
                            .rows = words_at(paired[p]),
                            .d_bias = grads[2].data_ptr<float>()});
      dense_columns_bf16_cpu(
          {.x = words_at(x_[p]), .in = in, .stride = stride, .columns = words_at(columns[p])});
      // all of them written, then the second part written and added to once more
      const int64_t half = in / 2 / kPairBlock * kPairBlock;
      for (int64_t part : {0, 1, 2})
        dense_input_grad_bf16_cpu({.weight = words_at(transpose_),
                                   .out = out,
                                   .dz = words_at(dz_pairs),
                                   .first = part ? half : 0,
                                   .features = part ? in - half : in,
                                   .dx = dx[p].data_ptr<float>() + (part ? half * stride : 0),
                                   .add = part == 2,
                                   .stride = stride});
      dx[p].narrow(0, half, in - half).mul_(0.5);
    }
    // outputs in two tasks, the first of whole blocks
    const int64_t half = out / 2 / kPairBlock * kPairBlock;
    for (int64_t part : {0, 1})
      dense_weight_grad_bf16_cpu({.columns = words_at(columns),
                                  .columns_step = columns.size(1),
                                  .dz = words_at(paired),
                                  .dz_step = paired.size(1),
                                  .panels = panels_,
                                  .stride = stride,
                                  .in = in,
                                  .first = part * half,
                                  .count = part ? out - half : half,
                                  .d_weight = grads[1].data_ptr<float>()});
    grads[0] = to_rows(dx);
    return grads;
  }

 private:
  static int64_t pairs(int64_t features) { return (features + 1) / 2; }
  at::Tensor to_panels(const at::Tensor& rows) const {
    // columns behind the last row are 0
    auto padded = at::zeros({panels_ * case_.stride, rows.size(1)});
    padded.narrow(0, 0, case_.rows).copy_(rows.detach());
    return padded.view({panels_, case_.stride, -1}).transpose(1, 2).contiguous();
  }
  at::Tensor to_rows(const at::Tensor& panels) const {
    return panels.transpose(1, 2)
        .reshape({panels_ * case_.stride, panels.size(1)})
        .narrow(0, 0, case_.rows)
        .contiguous();
  }

  PairLayerCase case_;
  int64_t panels_;
  Tensors in_;
  at::Tensor packed_, transpose_, x_, y_, z_, xhat_, rstd_;
};

at::Tensor pair_layer_reference(const Tensors& in, DenseEnd end) {
  auto z = at::linear(in[0], in[1], in[2]);
  if (end == DenseEnd::none) return z;
  auto u = at::layer_norm(z, {z.size(1)}, in[3], in[4], kLayerNormEps);
  if (end == DenseEnd::mish) return at::mish(u);
  return at::softmax(u.view({u.size(0), -1, kSimNormGroup}), -1).view(u.sizes());
}

}  // namespace

std::vector<KernelCase> dense_grad_bf16_cases() {
  std::vector<KernelCase> list;
  if (!pair_products_available()) return list;
  for (const PairLayerCase& c : {PairLayerCase{64, 12, 7, 64, DenseEnd::none},
                                 {1, 5, 8, 16, DenseEnd::mish},
                                 {100, 70, 16, 64, DenseEnd::simnorm},
                                 {130, 75, 40, 48, DenseEnd::mish},
                                 {3200, 68, 24, 64, DenseEnd::mish},
                                 {64, 512, 512, 64, DenseEnd::mish}}) {
    auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(c.rows * c.in + c.out));
    // numbers that are bfloat16 already: then what a layer reads is what its reference reads
    const auto rounded = [](const at::Tensor& t) { return t.to(at::kBFloat16).to(at::kFloat); };
    Tensors inputs{rounded(at::randn({c.rows, c.in}, gen)),
                   rounded(at::randn({c.out, c.in}, gen) / std::sqrt(c.in)),
                   at::randn({c.out}, gen)};
    if (c.end != DenseEnd::none) {
      inputs.push_back(at::randn({c.out}, gen));
      inputs.push_back(at::randn({c.out}, gen));
    }
    const char* ends[] = {"none", "mish", "simnorm"};
    list.push_back(
        {.name = "bf16 rows=" + std::to_string(c.rows) + " " + std::to_string(c.in) + "->" +
                 std::to_string(c.out) + " " + ends[int(c.end)],
         .inputs = inputs,
         .reference = [=](const Tensors& in) { return Tensors{pair_layer_reference(in, c.end)}; },
         .fused = [=](const Tensors& in) { return Tensors{TrainedPairLayer(c, in).forward()}; },
         .backward =
             [=](const Tensors& in, const Tensors& grad) {
               TrainedPairLayer layer(c, in);
               layer.forward();
               return layer.backward(grad[0]);
             },
         // what an end gives is rounded, and then d loss / d z: of the terms of a sum each by
         // itself, which moves the sum as one rounding of a number of its size does
         .tolerance = Tolerance::of_sums(2, kRoundBf16),
         .bytes = (c.rows * (c.in + c.out) + c.in * c.out) * 2,
         .flops = 2 * c.rows * c.in * c.out});
  }
  return list;
}

}  // namespace maglev
