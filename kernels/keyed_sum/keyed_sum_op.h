#pragma once
#include <cstdint>

#include <ATen/core/Tensor.h>

namespace maglev {

/// [keys, E] f32: row k is the sum of weight[i] rows[source[i]] over all i whose key[i] is k.
/// key, source [n] i32, weight [n] f32, rows [.., E] f32; without a source it is row i, without a
/// weight the row as it is. An addend whose key is in no [0, keys) is left out. Graph-safe.
struct KeyedRows {
  at::Tensor key, rows, source, weight;
};
at::Tensor keyed_sum(const KeyedRows& addends, int64_t keys);

/// rows[index], [n, E], of rows [.., E] f32 with gradients and index [n] i32 of rows that there
/// are.
at::Tensor gather_rows(const at::Tensor& rows, const at::Tensor& index);

}  // namespace maglev
