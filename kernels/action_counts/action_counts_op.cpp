#include "kernels/action_counts/action_counts_op.h"

#include <string>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/action_counts/action_counts.h"

namespace maglev {
namespace {

Tensors action_counts_reference(const at::Tensor& action, const at::Tensor& reset,
                                const std::vector<int64_t>& heads) {
  const at::Tensor took = reset.eq(0);
  std::vector<at::Tensor> counts;
  for (size_t head = 0; head < heads.size(); ++head)
    for (int64_t k = 0; k < heads[head]; ++k)
      counts.push_back(at::logical_and(action.select(1, int64_t(head)).eq(k), took).sum());
  const at::Tensor all = at::stack(counts).to(at::kFloat);
  return {at::stack({all, took.sum().to(at::kFloat).expand_as(all)})};
}

std::vector<KernelCase> action_counts_cases(at::Device device) {
  std::vector<KernelCase> list;
  for (const std::vector<int64_t>& heads :
       {std::vector<int64_t>{2}, {8}, {3, 5, 2}, {kCountedCategories}})
    for (int64_t rows : {1, 777, 70000}) {
      auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(rows));
      std::vector<at::Tensor> columns;
      for (int64_t K : heads) columns.push_back(at::randint(K, {rows}, gen, at::kInt));
      const at::Tensor action = at::stack(columns, 1).contiguous().to(device);
      const at::Tensor reset =
          at::randint(10, {rows}, gen, at::kInt).eq(0).to(at::kByte).to(device);
      int64_t categories = 0;
      for (int64_t K : heads) categories += K;
      list.push_back(
          {.name = std::to_string(rows) + " rows of " + std::to_string(heads.size()) + " heads, " +
                   std::to_string(categories) + " categories",
           .reference =
               [=](const Tensors&) { return action_counts_reference(action, reset, heads); },
           .fused =
               [=](const Tensors&) {
                 auto sums = at::zeros({2, categories}, action.options().dtype(at::kFloat));
                 count_actions_(sums, action, reset, heads);
                 return Tensors{sums};
               },
           .tolerance = 0,
           .bytes = rows * (4 * int64_t(heads.size()) + 1),
           .flops = rows * int64_t(heads.size())});
    }
  return list;
}

}  // namespace

void count_actions_(const at::Tensor& sums, const at::Tensor& action, const at::Tensor& reset,
                    const std::vector<int64_t>& heads) {
  const at::Device device = device_of("action_counts", sums, action, reset);
  MAGLEV_ASSERT(action.is_contiguous() && action.scalar_type() == at::kInt &&
                    action.size(1) == int64_t(heads.size()) && reset.is_contiguous() &&
                    reset.scalar_type() == at::kByte && reset.size(0) == action.size(0),
                "actions [rows, heads] i32 and resets [rows] u8");
  ActionCountArgs args{.action = action.const_data_ptr<int32_t>(),
                       .reset = reset.const_data_ptr<uint8_t>(),
                       .rows = action.size(0),
                       .heads = int(heads.size())};
  MAGLEV_ASSERT(heads.size() <= size_t(kCountedCategories), "raise kCountedCategories");
  for (size_t head = 0; head < heads.size(); ++head) {
    args.begin[head] = int32_t(args.categories);
    args.categories += int(heads[head]);
  }
  MAGLEV_ASSERT(args.categories <= kCountedCategories && sums.size(1) == args.categories &&
                    sums.stride(1) == 1 && sums.scalar_type() == at::kFloat,
                "two rows of sums, a category each");
  args.counts = sums.data_ptr<float>();
  args.taken = args.counts + sums.stride(0);
  launch<action_counts_cuda>("action_counts", device, action_counts_cpu, args);
}

namespace kernels::action_counts {
KernelEntry entry() {
  return {"action_counts", "how often each category of an action was taken", action_counts_cases};
}
}  // namespace kernels::action_counts

}  // namespace maglev
