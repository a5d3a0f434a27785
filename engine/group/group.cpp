#include "engine/group/group.h"

#include <ATen/ATen.h>

namespace maglev {

void Group::sum_gradient(const at::Tensor& gradient) {
  if (!rounds_) return sum(gradient);
  const at::Tensor rounded = gradient.to(at::kBFloat16);
  sum(rounded);
  gradient.copy_(rounded);
}

at::Tensor gathered(Group* group, const at::Tensor& values, int64_t dim) {
  if (!group) return values;
  // [size, ..., B, ...] -> [..., size * B, ...]
  return group->gather(values.contiguous()).movedim(0, dim).flatten(dim, dim + 1);
}

}  // namespace maglev
