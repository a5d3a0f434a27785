// Back through the end of layers on rows, against autograd.

#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/launch.h"
#include "kernels/dense_grad/dense_grad.h"
#include "kernels/dense_grad/dense_grad_op.h"

namespace maglev {
namespace {

struct EndGradShape {
  int64_t rows, nets, features;
  DenseEnd end;
  double dropout;
  at::ScalarType type;
};

// x [1, rows, nets, features] and [1, nets, features] start, gain, shift
KernelCase end_grad_case(const EndGradShape& s, at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(s.rows * 100 + s.features));
  const auto randn = [&](at::IntArrayRef sizes) { return at::randn(sizes, gen).to(device); };
  // numbers of that type already: then what a kernel reads is what its reference reads
  const Tensors inputs{randn({1, s.rows, s.nets, s.features}).to(s.type).to(at::kFloat),
                       randn({1, s.nets, s.features}), 1 + 0.5 * randn({1, s.nets, s.features}),
                       randn({1, s.nets, s.features})};
  const auto uniform = at::rand({1, s.nets, s.rows, s.features}, gen).to(device);
  const auto given = [=](const Tensors& in) {
    DenseEndTensors t{in[0].detach().to(s.type), in[1].detach(), in[2].detach(), in[3].detach(),
                      s.end};
    if (s.dropout > 0) t.uniform = uniform, t.share = s.dropout;
    return t;
  };
  const auto reference = [=](const Tensors& in) {
    auto x = in[0] + in[1].unsqueeze(1);
    if (s.dropout > 0)
      x = x * ((uniform >= s.dropout).to(x.scalar_type()) / (1 - s.dropout)).transpose(1, 2);
    Tensors nets;
    for (int64_t g = 0; g < s.nets; ++g)
      nets.push_back(dense_end_reference(x.select(2, g), in[2][0][g], in[3][0][g], s.end));
    return Tensors{at::stack(nets, 2)};
  };
  const auto backward = [=](const Tensors& in, const Tensors& grad) {
    const DenseEndTensors t = given(in);
    auto d = grad[0].detach().to(s.type).clone(at::MemoryFormat::Contiguous);
    auto parts = at::empty({end_grad_parts(s.rows), s.nets, 3, s.features}, uniform.options());
    dense_end_grad_(d, t, parts);
    Tensors grads{d.to(at::kFloat)};
    for (int i = 0; i < 3; ++i)
      grads.push_back(at::zeros({s.nets, 1, s.features}, uniform.options()));
    dense_end_fold(parts, grads[1], grads[2], grads[3]);
    for (int i = 1; i < 4; ++i) grads[size_t(i)] = grads[size_t(i)].transpose(0, 1);
    return grads;
  };
  const bool exact = s.type == at::kFloat;
  return {.name = "end rows=" + std::to_string(s.rows) + " nets=" + std::to_string(s.nets) +
                  " features=" + std::to_string(s.features) +
                  (s.end == DenseEnd::mish ? " mish" : " simnorm") +
                  (s.dropout > 0 ? " dropout" : "") + (exact ? "" : " bf16"),
          .inputs = inputs,
          .reference = reference,
          .fused =
              [=](const Tensors& in) {
                const DenseEndTensors t = given(in);
                auto y = at::empty_like(t.x);
                auto exact = at::empty({1, s.nets, s.rows, s.features}, uniform.options());
                dense_end_(y, t, exact);
                return Tensors{exact.transpose(1, 2)};
              },
          .backward = backward,
          // two moments on each way and the rows; in bf16 a gradient is rounded twice
          .tolerance = exact ? Tolerance::of_sums(4 * s.features + s.rows)
                             : Tolerance::of_sums(2, kRoundBf16),
          .bytes = 3 * s.rows * s.nets * s.features * (exact ? 4 : 2),
          .flops = s.rows * s.nets * s.features * 50,
          .repeat_fused = [=, t = given(inputs), d = inputs[0].to(s.type).clone(),
                           parts = at::empty({end_grad_parts(s.rows), s.nets, 3, s.features},
                                             uniform.options())] { dense_end_grad_(d, t, parts); }};
}

}  // namespace

std::vector<KernelCase> dense_end_grad_cases(at::Device device) {
  std::vector<KernelCase> list;
  for (const EndGradShape& s : {EndGradShape{1, 1, 8, DenseEnd::mish, 0, at::kFloat},
                                {37, 1, 40, DenseEnd::simnorm, 0, at::kFloat},
                                {50, 3, 384, DenseEnd::mish, 0.1, at::kFloat},
                                {16, 2, 1032, DenseEnd::simnorm, 0, at::kFloat},
                                {40, 2, 520, DenseEnd::mish, 0.1, at::kBFloat16},
                                {33, 1, 24, DenseEnd::simnorm, 0, at::kBFloat16}})
    list.push_back(end_grad_case(s, device));
  return list;
}

void dense_end_grad_(const at::Tensor& d, const DenseEndTensors& in, const at::Tensor& parts) {
  const at::Device device =
      device_of("dense_grad", d, in.x, in.start, in.gain, in.shift, in.uniform, parts);
  MAGLEV_ASSERT(in.x.size(0) == 1 && d.stride(3) == 1 && d.sizes() == in.x.sizes() &&
                    d.scalar_type() == in.x.scalar_type(),
                "gradients like x, their features contiguous");
  MAGLEV_ASSERT(device.is_cpu() || (rows_at_16_bytes(in.x) && rows_at_16_bytes(d)),
                "rows that begin at 16 bytes");
  const DenseEndRows of = dense_end_rows(in);
  MAGLEV_ASSERT(
      !parts.defined() || (parts.numel() == end_grad_parts(of.rows) * of.nets * 3 * of.features &&
                           parts.is_contiguous()),
      "a part for every kEndGradRows rows");
  const DenseSteps steps{.row = d.stride(1), .net = d.stride(2)};
  const DenseEndRowsGrad args{.of = of,
                              .dy = d.const_data_ptr(),
                              .dx = d.data_ptr(),
                              .from = steps,
                              .to = steps,
                              .parts = parts.defined() ? parts.data_ptr<float>() : nullptr};
  launch<dense_end_rows_grad_cuda>("dense_end_grad", device, dense_end_rows_grad_cpu, args);
}

void dense_end_fold(const at::Tensor& parts, const at::Tensor& d_start, const at::Tensor& d_gain,
                    const at::Tensor& d_shift) {
  const at::Device device = device_of("dense_grad", parts, d_start, d_gain, d_shift);
  const int64_t nets = parts.size(1), features = parts.size(3);
  for (const at::Tensor& d : {d_start, d_gain, d_shift})
    MAGLEV_ASSERT(d.dim() == 3 && d.size(0) == nets && d.size(2) == features && d.stride(2) == 1 &&
                      d.stride(0) == d_start.stride(0),
                  "[nets, 1, features] each, at one distance");
  const DenseEndFold args{.parts = parts.const_data_ptr<float>(),
                          .count = parts.size(0),
                          .nets = nets,
                          .features = features,
                          .d_start = d_start.data_ptr<float>(),
                          .d_gain = d_gain.data_ptr<float>(),
                          .d_shift = d_shift.data_ptr<float>(),
                          .net_step = d_start.stride(0)};
  launch<dense_end_fold_cuda>("dense_end_fold", device, dense_end_fold_cpu, args);
}

}  // namespace maglev
