#pragma once
#include <vector>

#include <ATen/core/Tensor.h>

namespace maglev {

/// Sets flag [1] f32 to 0 where a number of `columns`, contiguous f32 on its device, is not finite;
/// leaves it as it is otherwise. At most kFiniteColumns of them. Graph-safe.
void look_finite_(const std::vector<at::Tensor>& columns, const at::Tensor& flag);

}  // namespace maglev
