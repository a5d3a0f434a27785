#include "engine/group/host_group.h"

#include <vector>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "base/trace/span.h"

namespace maglev {

void HostGroup::sum(const at::Tensor& values) {
  const auto span = trace::wait("sum", "processes");
  MAGLEV_ASSERT(values.is_cpu() && values.is_contiguous(), "a group of the host adds its memory");
  const auto count = size_t(values.numel());
  switch (values.scalar_type()) {
    case at::kFloat:
      return processes_.sum(values.data_ptr<float>(), count);
    case at::kDouble:
      return processes_.sum(values.data_ptr<double>(), count);
    case at::kBFloat16:
      return processes_.sum(static_cast<uint16_t*>(values.data_ptr()), count);
    default:
      MAGLEV_ASSERT(false, "a group adds f32, f64 and bf16");
  }
}

at::Tensor HostGroup::gather(const at::Tensor& values) {
  const auto span = trace::wait("gather", "processes");
  MAGLEV_ASSERT(values.is_cpu() && values.is_contiguous(), "a group of the host reads its memory");
  std::vector<int64_t> shape = values.sizes().vec();
  shape.insert(shape.begin(), size());
  at::Tensor all = at::empty(shape, values.options());
  processes_.gather(values.const_data_ptr(), values.nbytes(), all.data_ptr());
  return all;
}

}  // namespace maglev
