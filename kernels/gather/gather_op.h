#pragma once
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/core/permute.h"

namespace maglev {

/// Rows of columns [R, ...] of any dtype, each contiguous, all on one device: returns columns
/// [B, ...]. At most 16 columns.
///   index [B] i64, contiguous, in [0, R); the same device
std::vector<at::Tensor> gather_rows(const std::vector<at::Tensor>& columns,
                                    const at::Tensor& index);

/// The same of rows order(first + i), i in [0, B), with no list in memory; order is of [0, R).
std::vector<at::Tensor> gather_rows(const std::vector<at::Tensor>& columns,
                                    const Permutation& order, int64_t first, int64_t B);

}  // namespace maglev
