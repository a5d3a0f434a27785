#include "kernels/end_product/end_product_op.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "engine/device/precision.h"

namespace maglev {
namespace {

const auto no_end_product = [](const auto&...) {
  throw Error("[end_product] runs on a CUDA device; a processor makes ends and products apart");
};

const uint16_t* bf16_bits(const at::Tensor& t) {
  return static_cast<const uint16_t*>(t.const_data_ptr());
}

// of [N, R, G, ...]
DenseSteps product_steps(const at::Tensor& t) {
  return {.env = t.stride(0), .row = t.stride(1), .net = t.stride(2)};
}

void expect_weight(const at::Tensor& w, int64_t N, int64_t G, int64_t inputs) {
  if (w.dim() != 4 || (w.size(0) != N && w.size(0) != 1) || w.size(1) != G || w.size(2) != inputs ||
      w.scalar_type() != at::kBFloat16)
    throw Error("[end_product] weight must be [N or 1, nets, inputs, out] in bf16 with N=" +
                std::to_string(N) + ", nets=" + std::to_string(G) +
                ", inputs=" + std::to_string(inputs) + ", got " + w.toString() + " of " +
                std::to_string(w.dim()) + " dimensions, inputs " + std::to_string(w.size(-2)));
  // what a tile reads behind the last line is there
  const bool lines = w.stride(3) == 1;
  const int64_t line = w.stride(lines ? 2 : 3);
  const int64_t last =
      (product_tiles(w.size(lines ? 2 : 3)) - 1) * line + product_tiles(w.size(lines ? 3 : 2));
  const auto in_tiles = [&](int64_t d) {
    return w.size(d) == 1 || w.stride(d) % kProductTile == 0;
  };
  const int64_t end =
      w.storage_offset() + (w.size(0) - 1) * w.stride(0) + (G - 1) * w.stride(1) + last;
  MAGLEV_ASSERT((lines || w.stride(2) == 1) && line % 8 == 0 && in_tiles(0) && in_tiles(1) &&
                    reinterpret_cast<uintptr_t>(w.const_data_ptr()) % 32 == 0 &&
                    end * 2 <= int64_t(w.storage().nbytes()),
                "weights in whole tiles: see product_weight");
}

// rows of `open` features whose end is to come and `ready` ones; N environments of R rows
struct EndProductShape {
  int64_t N, R, G, open, ready, out;
  DenseEnd end;
  bool transposed = false, own = false;  // weights: each environment's own
};

KernelCase end_product_case(const EndProductShape& s, at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(s.R * 100 + s.open));
  const auto random = [&](at::IntArrayRef sizes) { return at::randn(sizes, gen).to(device); };
  const auto bf16 = at::TensorOptions(at::kBFloat16).device(device);
  ProductRows rows;
  if (s.open > 0)
    // as a product leaves them: networks side by side
    rows.open = {.x = (random({s.N, s.R, s.G, s.open}) * 3 + 1).to(at::kBFloat16),
                 .start = random({s.N, s.G, s.open}),
                 .gain = 1 + random({1, s.G, s.open}) * 0.5,
                 .shift = random({1, s.G, s.open}),
                 .end = s.end};
  // within longer rows, behind what they have from elsewhere
  if (s.ready > 0)
    rows.ready = random({s.N, s.R, s.G, s.ready + 13}).to(at::kBFloat16).narrow(3, 8, s.ready);
  const int64_t inputs = s.open + s.ready, E = s.own ? s.N : 1;
  auto weight = s.transposed ? product_weight({E, s.G, s.out, inputs}, bf16).transpose(2, 3)
                             : product_weight({E, s.G, inputs, s.out}, bf16);
  weight.copy_(random({E, s.G, inputs, s.out}) / std::sqrt(double(inputs)));
  return {.name = "N=" + std::to_string(s.N) + " rows=" + std::to_string(s.R) +
                  " G=" + std::to_string(s.G) + " " +
                  (s.open == 0               ? "as they are "
                   : s.end == DenseEnd::mish ? "mish "
                                             : "simnorm ") +
                  std::to_string(s.open) + "+" + std::to_string(s.ready) + "-" +
                  std::to_string(s.out) + (s.transposed ? " transposed" : "") +
                  (s.own ? " own" : ""),
          .reference = [=](const Tensors&) { return Tensors{end_product_reference(rows, weight)}; },
          .fused = [=](const Tensors&) { return Tensors{end_product(rows, weight)}; },
          // what lies between two bf16 may be rounded the other way, once before and once behind
          .tolerance = 4 * kRoundBf16,
          .bytes = 2 * (s.N * s.R * s.G * (inputs + s.out) + E * s.G * inputs * s.out),
          .flops = 2 * s.N * s.R * s.G * inputs * s.out};
}

std::vector<KernelCase> end_product_cases(at::Device device) {
  std::vector<KernelCase> list;
  if (!device.is_cuda() || std::ranges::count(precisions_of(device), Precision::bf16) == 0)
    return list;
  for (const EndProductShape& s : {EndProductShape{1, 232, 2, 512, 0, 512, DenseEnd::mish},
                                   {1, 40, 1, 512, 6, 160, DenseEnd::simnorm},
                                   {1, 17, 1, 1024, 0, 101, DenseEnd::mish},
                                   {3, 19, 2, 32, 0, 101, DenseEnd::mish, true, true},
                                   {2, 33, 1, 0, 30, 64, DenseEnd::none, true, true},
                                   {2, 5, 3, 40, 9, 7, DenseEnd::simnorm},
                                   {1, 1, 1, 0, 6, 70, DenseEnd::none}})
    list.push_back(end_product_case(s, device));
  return list;
}

}  // namespace

at::Tensor product_weight(at::IntArrayRef sizes, const at::TensorOptions& options) {
  std::vector<int64_t> whole(sizes.begin(), sizes.end());
  for (size_t d = whole.size() - 2; d < whole.size(); ++d) whole[d] = product_tiles(whole[d]);
  return at::zeros(whole, options)
      .narrow(-2, 0, sizes[sizes.size() - 2])
      .narrow(-1, 0, sizes[sizes.size() - 1]);
}

at::Tensor end_product(const ProductRows& rows, const at::Tensor& weight) {
  const at::Tensor &x = rows.open.x, &ready = rows.ready;
  MAGLEV_ASSERT(x.defined() || ready.defined(), "rows to multiply");
  const at::Tensor& any = x.defined() ? x : ready;
  const at::Device device = device_of("end_product", any, ready, weight, rows.open.gain);
  const int64_t N = any.size(0), R = any.size(1), G = any.size(2), out = weight.size(-1);
  EndProduct args{.rows = {.end = DenseEnd::none, .bf16 = true, .envs = N, .rows = R, .nets = G}};
  if (x.defined()) {
    MAGLEV_ASSERT(rows_at_16_bytes(x), "rows that begin at 16 bytes");
    args.rows = dense_end_rows(rows.open);
  }
  if (ready.defined()) {
    MAGLEV_ASSERT(ready.sizes().slice(0, 3) == any.sizes().slice(0, 3) && ready.stride(3) == 1 &&
                      ready.scalar_type() == at::kBFloat16,
                  "what is ready is of the same rows");
    args.tail = bf16_bits(ready), args.tail_steps = product_steps(ready);
    args.tails = ready.size(3);
  }
  expect_weight(weight, N, G, args.inputs());
  if (!args.rows.bf16 || args.rows.features > kMostEndedFeatures ||
      args.inputs() > kMostProductInputs)
    throw Error("[end_product] rows must be bf16 with at most " +
                std::to_string(kMostEndedFeatures) + " features before an end and " +
                std::to_string(kMostProductInputs) + " inputs, got " +
                std::to_string(args.rows.features) + " and " + std::to_string(args.inputs()));
  args.transposed = weight.stride(3) != 1;
  args.weight = bf16_bits(weight);
  args.weight_steps = {.env = weight.size(0) == 1 ? 0 : weight.stride(0), .net = weight.stride(1)};
  args.weight_line = weight.stride(args.transposed ? 3 : 2);

  // as products of a batch lay their results
  const auto y = weight.size(0) == 1
                     ? at::empty({G, N, R, out}, any.options()).permute({1, 2, 0, 3})
                     : at::empty({N, G, R, out}, any.options()).transpose(1, 2);
  args.y = static_cast<uint16_t*>(y.data_ptr()), args.to = product_steps(y), args.out = out;
  launch<end_product_cuda>("end_product", device, no_end_product, args);
  return y;
}

at::Tensor end_product_reference(const ProductRows& rows, const at::Tensor& weight) {
  std::vector<at::Tensor> inputs;
  if (rows.open.x.defined())
    inputs.push_back(dense_end_reference(rows.open).to(at::kBFloat16).to(at::kFloat));
  if (rows.ready.defined()) inputs.push_back(rows.ready.to(at::kFloat));
  // [N, G, R, inputs] times [N or 1, G, inputs, out]
  const auto y = at::matmul(at::cat(inputs, 3).transpose(1, 2), weight.to(at::kFloat));
  return y.transpose(1, 2).to(at::kBFloat16);
}

namespace kernels::end_product {
KernelEntry entry() {
  return {.name = "end_product",
          .summary = "a layer's end and the next layer's product in one launch, bf16 on a device",
          .cases = end_product_cases,
          .device_only = true};
}
}  // namespace kernels::end_product

}  // namespace maglev
