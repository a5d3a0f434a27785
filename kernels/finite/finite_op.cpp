#include "kernels/finite/finite_op.h"

#include <limits>
#include <string>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/finite/finite.h"

namespace maglev {
namespace {

std::vector<KernelCase> finite_cases(at::Device device) {
  std::vector<KernelCase> list;
  const double infinite = std::numeric_limits<double>::infinity();
  for (int64_t count : {1, 1000, 200000})
    for (const auto& [name, odd] : {std::pair<const char*, double>{"numbers", 0.},
                                    {"an infinity", -infinite},
                                    {"a NaN", std::numeric_limits<double>::quiet_NaN()}}) {
      auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(count));
      // the largest numbers are numbers still
      Tensors columns{(at::randn({count}, gen) * 1e38).clamp(-3e38, 3e38).to(device),
                      at::randn({(count + 1) / 2}, gen).to(device)};
      columns[1][-1] = odd;
      list.push_back({.name = std::string(name) + " of " + std::to_string(count),
                      .reference =
                          [=](const Tensors&) {
                            return Tensors{at::logical_and(at::isfinite(columns[0]).all(),
                                                           at::isfinite(columns[1]).all())
                                               .to(at::kFloat)
                                               .reshape({1})};
                          },
                      .fused =
                          [=](const Tensors&) {
                            auto flag = at::ones({1}, columns[0].options());
                            look_finite_(columns, flag);
                            return Tensors{flag};
                          },
                      .tolerance = 0,
                      .bytes = 6 * count,
                      .flops = 2 * count});
    }
  return list;
}

}  // namespace

void look_finite_(const std::vector<at::Tensor>& columns, const at::Tensor& flag) {
  MAGLEV_ASSERT(columns.size() <= size_t(kFiniteColumns), "raise kFiniteColumns");
  FiniteArgs args{.flag = flag.data_ptr<float>()};
  const at::Device device = device_of("finite", flag);
  for (const at::Tensor& column : columns) {
    device_of("finite", flag, column);
    MAGLEV_ASSERT(column.is_contiguous() && column.scalar_type() == at::kFloat, "f32");
    args.column[args.columns] = column.const_data_ptr<float>();
    args.count[args.columns++] = column.numel();
  }
  launch<finite_cuda>("finite", device, finite_cpu, args);
}

namespace kernels::finite {
KernelEntry entry() { return {"finite", "whether columns hold numbers only", finite_cases}; }
}  // namespace kernels::finite

}  // namespace maglev
