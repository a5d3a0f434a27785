#pragma once
// Cases of dense_grad.h's kernels that lie in a file of their own.

#include <vector>

#include "engine/device/kernel.h"

namespace maglev {

/// Of a layer in bfloat16 (dense_grad_bf16.h), where this processor has its products.
std::vector<KernelCase> dense_grad_bf16_cases();

}  // namespace maglev
