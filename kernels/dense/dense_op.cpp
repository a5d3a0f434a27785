#include "kernels/dense/dense_op.h"

#include <cmath>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "engine/algo/kernel.h"
#include "engine/core/error.h"
#include "engine/data/device.h"

namespace maglev {
namespace {

// a layer over any number of rows, panel by panel as the engine drives it; memory made once
class PanelLayer {
 public:
  // inputs: the segments side by side [rows, in]; parameters: weight, bias, gain, shift
  PanelLayer(const Tensors& parameters, std::vector<int64_t> segments, DenseEnd end)
      : parameters_(parameters), end_(end), out_(parameters[0].size(0)) {
    const int64_t in = parameters[0].size(1);
    packed_ = aligned(packed_dense_size(out_, in));
    pack_dense({.weight = parameters[0].data_ptr<float>(),
                .out = out_,
                .in = in,
                .out_step = in,
                .in_step = 1,
                .packed = packed_.data_ptr<float>()});
    x_ = aligned(in * kPanelRows), y_ = aligned(out_ * kPanelRows);
    xhat_ = aligned(out_ * kPanelRows), rstd_ = aligned(kPanelRows);
    int64_t first = 0;
    for (int64_t features : segments) {
      segments_.push_back({x_.data_ptr<float>() + first * kPanelRows, first, features});
      first += features;
    }
  }

  /// y, xhat [rows, out] and rstd [rows].
  Tensors forward(const at::Tensor& x) {
    const int64_t rows = x.size(0);
    Tensors out{at::empty({rows, out_}), at::empty({rows, out_}), at::empty({rows, 1})};
    for (int64_t first = 0; first < rows; first += kPanelRows) {
      const int64_t count = std::min(kPanelRows, rows - first);
      load(x.narrow(0, first, count));
      run(count, true);
      const Tensors panels{y_, xhat_, rstd_};
      for (size_t i = 0; i < out.size(); ++i)
        panel_to_rows(panels[i].data_ptr<float>(), count, out[i].size(1),
                      out[i].data_ptr<float>() + first * out[i].size(1));
    }
    if (end_ == DenseEnd::none) out.resize(1);
    return out;
  }

  /// The panel that was loaded last.
  void run(int64_t rows, bool keep) {
    dense_cpu({.weight = packed_.data_ptr<float>(),
               .in = parameters_[0].size(1),
               .out = out_,
               .start = parameters_[1].data_ptr<float>(),
               .segments = segments_,
               .end = end_,
               .gain = parameters_[2].data_ptr<float>(),
               .shift = parameters_[3].data_ptr<float>(),
               .y = y_.data_ptr<float>(),
               .xhat = keep ? xhat_.data_ptr<float>() : nullptr,
               .rstd = keep ? rstd_.data_ptr<float>() : nullptr,
               .stride = kPanelRows,
               .rows = rows});
  }

 private:
  // ATen aligns to 64 bytes
  static at::Tensor aligned(int64_t count) { return at::zeros({count}); }
  void load(const at::Tensor& x) {
    auto rows = x.contiguous();
    rows_to_panel(rows.data_ptr<float>(), rows.size(0), rows.size(1), x_.data_ptr<float>());
  }

  Tensors parameters_;
  DenseEnd end_;
  int64_t out_;
  at::Tensor packed_, x_, y_, xhat_, rstd_;
  std::vector<DenseSegment> segments_;
};

Tensors layer_reference(const Tensors& in, DenseEnd end) {
  auto z = at::linear(in[0], in[1], in[2]);
  if (end == DenseEnd::none) return {z};
  auto variance = z.var(-1, /*unbiased=*/false, /*keepdim=*/true);
  auto rstd = at::rsqrt(variance + double(kLayerNormEps));
  return {dense_end_reference(z, in[3], in[4], end), (z - z.mean(-1, true)) * rstd, rstd};
}

const char* name_of(DenseEnd end) {
  return end == DenseEnd::none ? "none" : end == DenseEnd::mish ? "mish" : "simnorm";
}

void add_layer_cases(std::vector<KernelCase>& list) {
  struct Shape {
    int64_t rows, out;
    std::vector<int64_t> segments;
    DenseEnd end;
  };
  for (const Shape& s : {Shape{64, 512, {512}, DenseEnd::mish},
                         {64, 512, {512, 4}, DenseEnd::simnorm},
                         {64, 101, {512}, DenseEnd::none},
                         {24, 512, {512, 4, 96}, DenseEnd::mish},
                         {16, 8, {512}, DenseEnd::none},
                         {48, 512, {512}, DenseEnd::mish},
                         {131, 40, {7, 5}, DenseEnd::mish},
                         {1, 16, {3}, DenseEnd::simnorm}}) {
    int64_t in = 0;
    for (int64_t features : s.segments) in += features;
    auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(s.rows * 1000 + in));
    const Tensors inputs{at::randn({s.rows, in}, gen),
                         at::randn({s.out, in}, gen) / std::sqrt(double(in)),
                         at::randn({s.out}, gen) * 0.1, 1 + at::randn({s.out}, gen) * 0.1,
                         at::randn({s.out}, gen) * 0.1};
    const Tensors parameters(inputs.begin() + 1, inputs.end());
    auto layer = std::make_shared<PanelLayer>(parameters, s.segments, s.end);
    layer->forward(inputs[0]);
    const auto end = s.end;
    const int64_t last = (s.rows - 1) % kPanelRows + 1;
    list.push_back({.name = std::string("layer ") + name_of(end) + " " + std::to_string(in) + "-" +
                            std::to_string(s.out) + " rows=" + std::to_string(s.rows),
                    .reference = [=](const Tensors&) { return layer_reference(inputs, end); },
                    .fused = [=](const Tensors&) { return layer->forward(inputs[0]); },
                    .tolerance = 1e-4,
                    .bytes = 4 * (in * s.out + last * (in + s.out)),
                    .flops = 2 * in * s.out * last,
                    .repeat_reference =
                        [=] {
                          auto part = inputs;
                          part[0] = inputs[0].narrow(0, 0, last);
                          layer_reference(part, end);
                        },
                    .repeat_fused = [=] { layer->run(last, false); }});
  }
}

void add_end_cases(std::vector<KernelCase>& list, at::Device device) {
  for (auto type : {at::kFloat, at::kBFloat16}) {
    if (device.is_cpu() && type != at::kFloat) continue;
    for (auto end : {DenseEnd::mish, DenseEnd::simnorm})
      for (auto [rows, features] :
           {std::pair<int64_t, int64_t>{3, 24}, {100, 384}, {512, 512}, {70, 1376}}) {
        auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(rows + features));
        auto x = (at::randn({rows, features}, gen) * 3 + 1).to(device, type);
        auto gain = (1 + at::randn({features}, gen) * 0.5).to(device);
        auto shift = at::randn({features}, gen).to(device);
        auto again = x.clone();
        list.push_back(
            {.name = std::string("end ") + name_of(end) + (type == at::kFloat ? "" : " bf16") +
                     " rows=" + std::to_string(rows) + " features=" + std::to_string(features),
             .reference =
                 [=](const Tensors&) {
                   return Tensors{dense_end_reference(x.to(at::kFloat), gain, shift, end).to(type)};
                 },
             .fused =
                 [=](const Tensors&) { return Tensors{dense_end_(x.clone(), gain, shift, end)}; },
             .tolerance = type == at::kFloat ? 1e-5 : 8e-3,
             .bytes = 2 * x.numel() * int64_t(x.element_size()),
             .flops = x.numel() * 20,
             .repeat_fused = [=] { dense_end_(again, gain, shift, end); }});
      }
  }
}

std::vector<KernelCase> cases(at::Device device) {
  std::vector<KernelCase> list;
  if (device.is_cpu()) add_layer_cases(list);
  add_end_cases(list, device);
  return list;
}

}  // namespace

at::Tensor dense_end_(at::Tensor x, const at::Tensor& gain, const at::Tensor& shift, DenseEnd end) {
  const int64_t features = x.size(-1);
  MAGLEV_ASSERT(end != DenseEnd::none && x.is_contiguous(), "an end of contiguous rows");
  if (features % kSimNormGroup || gain.numel() != features || shift.numel() != features)
    throw Error("[dense] gain and shift must be [features], features a multiple of " +
                std::to_string(kSimNormGroup) + ", got x with " + std::to_string(features) +
                ", gain " + std::to_string(gain.numel()) + ", shift " +
                std::to_string(shift.numel()));
  const bool bf16 = x.scalar_type() == at::kBFloat16;
  if (!(bf16 && x.is_cuda()) && x.scalar_type() != at::kFloat)
    throw Error(std::string("[dense] x must be f32, or bf16 on CUDA, got ") + x.toString());
  const DenseEndRows args{.end = end,
                          .x = x.data_ptr(),
                          .bf16 = bf16,
                          .gain = gain.data_ptr<float>(),
                          .shift = shift.data_ptr<float>(),
                          .rows = x.numel() / features,
                          .features = features};
#ifdef MAGLEV_DEVICE_CODE
  if (x.is_cuda()) {
    check_cuda(dense_end_cuda(args, current_stream()), "dense");
    return x;
  }
#endif
  MAGLEV_ASSERT(x.is_cpu(), "a kernel runs where its tensor is");
  dense_end_cpu(args);
  return x;
}

at::Tensor dense_end_reference(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& shift,
                               DenseEnd end) {
  if (end == DenseEnd::none) return x;
  auto y = at::layer_norm(x, {x.size(-1)}, gain, shift, double(kLayerNormEps));
  if (end == DenseEnd::mish) return at::mish(y);
  return at::softmax(y.unflatten(-1, {-1, kSimNormGroup}), -1).flatten(-2);
}

namespace kernels::dense {
KernelEntry entry() {
  return {"dense", "one wide layer on a panel with LayerNorm and Mish or SimNorm; the ends on rows",
          cases};
}
}  // namespace kernels::dense

}  // namespace maglev
