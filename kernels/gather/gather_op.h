#pragma once
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/philox/philox.h"

namespace maglev {

/// Rows of columns [R, ...] of any dtype, each contiguous, all on one device: returns columns
/// [B, ...]. At most 16 columns.
///   index [B] i64, contiguous, in [0, R); the same device
std::vector<at::Tensor> gather_rows(const std::vector<at::Tensor>& columns,
                                    const at::Tensor& index);

/// The same of rows permutation_of(order)(first + i), i in [0, B), with no list in memory; order.n
/// = R.
std::vector<at::Tensor> gather_rows(const std::vector<at::Tensor>& columns,
                                    const PermutationKey& order, int64_t first, int64_t B);

}  // namespace maglev
