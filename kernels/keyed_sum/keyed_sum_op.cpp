#include "kernels/keyed_sum/keyed_sum_op.h"

#include <string>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/keyed_sum/keyed_sum.h"

namespace maglev {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class GatherRows : public torch::autograd::Function<GatherRows> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows,
                            const at::Tensor& index) {
    context->save_for_backward({index});
    context->saved_data["rows"] = rows.size(0);
    return rows.index_select(0, index);
  }
  static variable_list backward(AutogradContext* context, variable_list grad) {
    return {keyed_sum({.key = context->get_saved_variables()[0], .rows = grad[0]},
                      context->saved_data["rows"].toInt()),
            {}};
  }
};

// some addends have no row; `keys` of few are long sums
KernelCase keyed_sum_case(int64_t count, int64_t keys, int64_t E, bool weighted,
                          at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(count * 100 + E));
  const auto i32 = at::TensorOptions(at::kInt);
  const auto key = at::randint(-1, keys + 1, {count}, gen, i32);
  const int64_t sources = weighted ? count / 2 + 1 : count;
  const auto rows = at::randn({sources, E}, gen).to(device);
  KeyedRows addends{.key = key.to(device), .rows = rows};
  if (weighted) {
    addends.source = at::randint(sources, {count}, gen, i32).to(device);
    addends.weight = at::randn({count}, gen).to(device);
  }
  const auto there = addends.key.ge(0).logical_and(addends.key.lt(keys)).to(at::kFloat);
  return {.name = "n=" + std::to_string(count) + " keys=" + std::to_string(keys) +
                  " E=" + std::to_string(E) + (weighted ? " weighted" : ""),
          .reference =
              [=](const Tensors&) {
                auto each = weighted
                                ? rows.index_select(0, addends.source) * addends.weight.unsqueeze(1)
                                : rows;
                each = each * there.unsqueeze(1);
                return Tensors{at::zeros({keys, E}, each.options())
                                   .index_add(0, addends.key.clamp(0, keys - 1), each)};
              },
          .fused = [=](const Tensors&) { return Tensors{keyed_sum(addends, keys)}; },
          .tolerance = Tolerance::of_sums(count),
          .bytes = 4 * (3 * count * E + 3 * count),
          .flops = 2 * count * E};
}

KernelCase gather_rows_case(int64_t count, int64_t rows, int64_t E, at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(count * 100 + E));
  const auto index = at::randint(rows, {count}, gen, at::TensorOptions(at::kInt)).to(device);
  return {.name = "gathered n=" + std::to_string(count) + " of " + std::to_string(rows) +
                  " E=" + std::to_string(E),
          .inputs = {at::randn({rows, E}, gen).to(device)},
          .reference = [=](const Tensors& in) { return Tensors{in[0].index_select(0, index)}; },
          .fused = [=](const Tensors& in) { return Tensors{gather_rows(in[0], index)}; },
          .tolerance = Tolerance::of_sums(count),
          .bytes = 8 * count * E,
          .flops = 0};
}

std::vector<KernelCase> keyed_sum_cases(at::Device device) {
  // one block; two; blocks that a key goes through whole, and as many as leave several levels of
  // sums
  return {keyed_sum_case(1, 1, 3, false, device),        keyed_sum_case(100, 60, 17, true, device),
          keyed_sum_case(700, 2, 5, true, device),       keyed_sum_case(5000, 9, 20, false, device),
          keyed_sum_case(3000, 1200, 250, true, device), gather_rows_case(90, 7, 33, device)};
}

}  // namespace

at::Tensor keyed_sum(const KeyedRows& addends, int64_t keys) {
  const auto key = addends.key.contiguous(), rows = addends.rows.contiguous();
  const auto source = addends.source.defined() ? addends.source.contiguous() : addends.source,
             weight = addends.weight.defined() ? addends.weight.contiguous() : addends.weight;
  const at::Device device = device_of("keyed_sum", rows, key, source, weight);
  const int64_t count = key.numel(), width = rows.size(1);
  MAGLEV_ASSERT(key.scalar_type() == at::kInt && rows.scalar_type() == at::kFloat,
                "keys i32 of rows f32");
  auto out = at::zeros({keys, width}, rows.options());
  if (count == 0) return out;

  // a device adds what lies together
  at::Tensor sorted, order, partial, partial_key;
  if (device.is_cuda()) {
    std::tie(sorted, order) = at::sort(key.view({-1}), /*stable=*/true, 0, /*descending=*/false);
    const int64_t partials = keyed_sum_partials(count);
    partial = at::empty({partials, width}, rows.options());
    partial_key = at::empty({partials}, key.options());
  }
  const auto ints = [](const at::Tensor& t) {
    return t.defined() ? t.const_data_ptr<int32_t>() : nullptr;
  };
  const KeyedSum args{
      .count = count,
      .key = ints(key),
      .source = ints(source),
      .weight = weight.defined() ? weight.const_data_ptr<float>() : nullptr,
      .rows = rows.const_data_ptr<float>(),
      .width = width,
      .out = out.data_ptr<float>(),
      .keys = keys,
      .sorted = ints(sorted),
      .order = order.defined() ? order.const_data_ptr<int64_t>() : nullptr,
      .partial = partial.defined() ? partial.data_ptr<float>() : nullptr,
      .partial_key = partial_key.defined() ? partial_key.data_ptr<int32_t>() : nullptr};
  launch<keyed_sum_cuda>("keyed_sum", device, keyed_sum_cpu, args);
  return out;
}

at::Tensor gather_rows(const at::Tensor& rows, const at::Tensor& index) {
  return GatherRows::apply(rows, index);
}

namespace kernels::keyed_sum {
KernelEntry entry() {
  return {"keyed_sum", "rows added up by key, in a fixed order: what comes back to gathered rows",
          keyed_sum_cases};
}
}  // namespace kernels::keyed_sum

}  // namespace maglev
