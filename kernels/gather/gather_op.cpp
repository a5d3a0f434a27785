#include "kernels/gather/gather_op.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/gather/gather.h"
#include "kernels/philox/philox_op.h"

namespace maglev {
namespace {

/// Which rows, without the columns.
GatherArgs listed(const at::Tensor& index) {
  MAGLEV_ASSERT(index.scalar_type() == at::kLong && index.is_contiguous(), "[B] i64");
  return {.columns = {},
          .count = 0,
          .index = index.const_data_ptr<int64_t>(),
          .order = {},
          .first = 0,
          .B = index.numel()};
}

GatherArgs permuted(const PermutationKey& order, int64_t first, int64_t B) {
  return {.columns = {}, .count = 0, .index = nullptr, .order = order, .first = first, .B = B};
}

Tensors empty_outputs(const Tensors& columns, int64_t B) {
  Tensors out;
  for (const at::Tensor& column : columns) {
    auto sizes = column.sizes().vec();
    sizes[0] = B;
    out.push_back(at::empty(sizes, column.options()));
  }
  return out;
}

void gather_into(Tensors& out, const Tensors& columns, GatherArgs args) {
  MAGLEV_ASSERT(!columns.empty() && columns.size() <= size_t(kGatherColumns), "1 to 16 columns");
  const at::Device device = device_of("gather", columns[0]);
  for (size_t c = 0; c < columns.size(); ++c) {
    const at::Tensor& column = columns[c];
    device_of("gather", columns[0], column, out[c]);
    MAGLEV_ASSERT(column.is_contiguous() && column.dim() >= 1, "contiguous [R, ...]");
    // bytes of a row, whatever its dtype
    const int64_t rows = std::max<int64_t>(1, column.size(0));
    args.columns[args.count++] = {column.const_data_ptr(), out[c].data_ptr(),
                                  column.numel() / rows * int64_t(column.element_size())};
  }
  launch<gather_cuda>("gather", device, gather_cpu, args);
}

Tensors gather(const Tensors& columns, const GatherArgs& args) {
  auto out = empty_outputs(columns, args.B);
  gather_into(out, columns, args);
  return out;
}

// a rollout's columns as PPO has them: observation, action, log-probability, target, mask
Tensors rollout_columns(int64_t R, int64_t observation, at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(R));
  const auto u8 = at::TensorOptions(at::kByte), i32 = at::TensorOptions(at::kInt);
  Tensors columns{at::randn({R, observation}, gen), at::randint(0, 5, {R, 1}, gen, i32),
                  at::randn({R}, gen), at::randn({R}, gen), at::randint(0, 2, {R, 5}, gen, u8)};
  for (at::Tensor& column : columns) column = column.to(device);
  return columns;
}

std::vector<KernelCase> gather_cases(at::Device device) {
  std::vector<KernelCase> list;
  for (auto [R, B, observation, permute] :
       {std::tuple<int64_t, int64_t, int64_t, bool>{1, 1, 1, false},
        {100, 33, 3, false},
        {100, 33, 3, true},
        {32768, 1024, 4, false},
        {32768, 1024, 4, true},
        {4096, 512, 400, false}}) {
    auto columns = rollout_columns(R, observation, device);
    // the same rows both ways: as a list, and as the end of a permutation
    const PermutationKey order{.seed = 7, .counter = 1, .n = R};
    auto index = at::empty({B}, at::TensorOptions(at::kLong).device(device));
    fill_permutation(index, order, /*first=*/R - B);
    const auto args = [=] { return permute ? permuted(order, R - B, B) : listed(index); };
    auto out = empty_outputs(columns, B);
    // each element is read and written, a list is read besides
    int64_t bytes = permute ? 0 : B * 8;
    for (const at::Tensor& o : out) bytes += 2 * o.numel() * int64_t(o.element_size());
    list.push_back({.name = "R=" + std::to_string(R) + " B=" + std::to_string(B) +
                            " D=" + std::to_string(observation) + (permute ? " permuted" : ""),
                    .reference =
                        [=](const Tensors&) {
                          auto rows = permute ? at::empty_like(index) : index;
                          if (permute) fill_permutation(rows, order, R - B);
                          Tensors selected;
                          for (const at::Tensor& column : columns)
                            selected.push_back(column.index_select(0, rows));
                          return selected;
                        },
                    .fused = [=](const Tensors&) { return gather(columns, args()); },
                    .tolerance = 0,
                    .bytes = bytes,
                    .repeat_fused = [=]() mutable { gather_into(out, columns, args()); }});
  }
  return list;
}

}  // namespace

Tensors gather_rows(const Tensors& columns, const at::Tensor& index) {
  return gather(columns, listed(index));
}

Tensors gather_rows(const Tensors& columns, const PermutationKey& order, int64_t first, int64_t B) {
  return gather(columns, permuted(order, first, B));
}

namespace kernels::gather {
KernelEntry entry() { return {"gather", "rows of several columns into a minibatch", gather_cases}; }
}  // namespace kernels::gather

}  // namespace maglev
