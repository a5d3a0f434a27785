#include "kernels/gru/gru_op.h"

#include <string>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/gru/gru.h"

namespace maglev {
namespace {

GruArgs gru_args(const GruInputs& in) {
  const int64_t blocks = in.gates.size(0), rows = in.gates.size(1);
  MAGLEV_ASSERT(in.gates.size(2) * blocks == 3 * in.h.size(1) && in.h.size(0) == rows,
                "three gates for each element of h");
  MAGLEV_ASSERT(in.gates.stride(2) == 1 && in.h.stride(1) == 1, "a row's elements lie together");
  return {.rows = rows,
          .blocks = blocks,
          .width = in.gates.size(2) / 3,
          .gates = in.gates.const_data_ptr<float>(),
          .gates_block = in.gates.stride(0),
          .gates_row = in.gates.stride(1),
          .bias = in.bias.const_data_ptr<float>(),
          .h = in.h.const_data_ptr<float>(),
          .h_row = in.h.stride(0),
          .next = nullptr,
          .next_row = 0};
}

KernelCase gru_case(int64_t rows, int64_t blocks, int64_t width, at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(rows * 100 + width));
  const auto randn = [&](at::IntArrayRef sizes) { return at::randn(sizes, gen).to(device); };
  const auto gates = randn({blocks, rows, 3 * width}), bias = randn({blocks * 3 * width});
  const auto h = randn({rows, blocks * width});
  const auto keep = (at::rand({rows}, gen) < 0.7).to(at::kFloat).to(device);
  return {.name = "rows=" + std::to_string(rows) + " h=" + std::to_string(blocks) + "x" +
                  std::to_string(width),
          .inputs = {gates, h},
          .reference =
              [=](const Tensors& in) {
                const auto next =
                    gru_reference(in[0] + bias.to(in[0].dtype()).view({blocks, 1, -1}), in[1]);
                return Tensors{next, next * keep.to(next.dtype()).unsqueeze(1)};
              },
          .fused =
              [=](const Tensors& in) {
                auto next = at::empty_like(h), carried = at::empty_like(h);
                gru({in[0], bias, in[1]}, next, {carried, keep});
                return Tensors{next, carried};
              },
          .backward =
              [=](const Tensors& in, const Tensors& grad) {
                auto d_gates = at::empty_like(gates), d_h = grad[1].clone();
                gru_back({in[0], bias, in[1]}, grad[0].contiguous(), d_gates, d_h, {d_h, keep});
                return Tensors{d_gates, d_h};
              },
          .tolerance = 2e-6,
          .bytes = rows * blocks * width * 20,
          .flops = rows * blocks * width * 60,
          .repeat_fused = [=, next = at::empty_like(h)]() mutable { gru({gates, bias, h}, next); }};
}

std::vector<KernelCase> gru_cases(at::Device device) {
  return {gru_case(1, 1, 1, device), gru_case(3, 4, 5, device), gru_case(16, 8, 64, device)};
}

}  // namespace

void gru(const GruInputs& in, at::Tensor& next, const CarriedRows& carried) {
  const at::Device device =
      device_of("gru", in.gates, in.bias, in.h, next, carried.rows, carried.keep);
  GruArgs args = gru_args(in);
  args.next = next.data_ptr<float>(), args.next_row = next.stride(0);
  args.carried = carried_of<float>(carried);
  launch<gru_cuda>("gru", device, gru_cpu, args);
}

void gru_back(const GruInputs& in, const at::Tensor& d_next, at::Tensor& d_gates, at::Tensor& d_h,
              const CarriedRows& d_carried) {
  const at::Device device = device_of("gru", in.gates, in.bias, in.h, d_next, d_gates, d_h,
                                      d_carried.rows, d_carried.keep);
  const GruBack args{.forward = gru_args(in),
                     .d_next = d_next.const_data_ptr<float>(),
                     .d_next_row = d_next.stride(0),
                     .d_carried = carried_of<const float>(d_carried),
                     .d_gates = d_gates.data_ptr<float>(),
                     .d_gates_block = d_gates.stride(0),
                     .d_gates_row = d_gates.stride(1),
                     .d_h = d_h.data_ptr<float>(),
                     .d_h_row = d_h.stride(0)};
  launch<gru_back_cuda>("gru", device, gru_back_cpu, args);
}

at::Tensor gru_reference(const at::Tensor& gates, const at::Tensor& h) {
  const int64_t blocks = gates.size(0), rows = gates.size(1);
  const auto parts = gates.transpose(0, 1).chunk(3, 2);
  const auto before = h.view({rows, blocks, -1});
  const auto candidate = at::tanh(at::sigmoid(parts[0]) * parts[1]);
  const auto update = at::sigmoid(parts[2] - 1);
  return (update * candidate + (1 - update) * before).reshape({rows, -1});
}

namespace kernels::gru {
KernelEntry entry() {
  return {"gru", "a gated recurrent unit in blocks behind its products, with gradients", gru_cases};
}
}  // namespace kernels::gru

}  // namespace maglev
