#pragma once
#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/attention/attention.h"

namespace maglev {

/// Sequences of rows that lie one behind another, none of them empty.
struct RowSequences {
  at::Tensor offsets;  ///< [U + 1] i32, where each begins
  int64_t most;        ///< rows of the longest at most; at most kMostAttended
};

/// Each row asks all rows of its sequence. qkv [M, 3 E] f32: queries, keys and values, each of
/// `heads` heads. Returns [M, E] f32, with gradients; 0 in rows behind the last sequence. Of a
/// processor.
at::Tensor self_attention(const at::Tensor& qkv, const RowSequences& rows, int64_t heads = 1);

/// query [E] f32 asks the rows x [M, E] f32 of each sequence, which are keys and values. Returns
/// [U, E] f32, with gradients. Of a processor.
at::Tensor attention_pool(const at::Tensor& query, const at::Tensor& x, const RowSequences& rows,
                          int64_t heads = 1);

/// The same by at::scaled_dot_product_attention over sequences filled up to one length and a mask;
/// also in f64.
at::Tensor self_attention_reference(const at::Tensor& qkv, const RowSequences& rows,
                                    int64_t heads = 1);
at::Tensor attention_pool_reference(const at::Tensor& query, const at::Tensor& x,
                                    const RowSequences& rows, int64_t heads = 1);

/// q [U, Q, E], k and v [U, A, E], and which keys are seen [U, A] bool, at least one of each row:
/// [U, Q, E] of their dtype by at::scaled_dot_product_attention, on any device, with gradients.
at::Tensor attend_padded(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const at::Tensor& seen, int64_t heads = 1);

}  // namespace maglev
