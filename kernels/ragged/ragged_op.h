#pragma once
#include <cstdint>

#include <ATen/core/Tensor.h>

namespace maglev {

/// The goals of rows without empty slots and each once, numbered by where they first occur. Behind
/// them stand zeros: a library's products make their code for each number of rows anew, so few
/// numbers should occur.
struct PackedGoals {
  at::Tensor goals;      ///< [packed_size(all), A, 3] i32
  int64_t states = 0;    ///< the first of them are the different states
  int64_t all = 0;       ///< different ones
  at::Tensor state;      ///< [B] i32, the number of each row's state; undefined without states
  at::Tensor successor;  ///< [M] i32, of each successor, row after row; undefined without
  at::Tensor offsets;    ///< [B + 1] i32, where each row's successors begin
};
/// `count` and what is taken besides; never falls where count grows.
int64_t packed_size(int64_t count);

/// states [B, A, 3] i32, successors [B, S, A, 3] i32, contiguous, of a processor; either may be
/// undefined. A successor whose first predicate is 0 ends those of its row.
PackedGoals pack_goals(const at::Tensor& states, const at::Tensor& successors);

/// logits [B, S] f32: scale times the product of row b's u [.., E] with its successors' v [.., E],
/// both f32 with gradients, and 0 behind the last one. `rows` numbers u by `state` and v by
/// `successor`.
at::Tensor ragged_dot(const at::Tensor& u, const at::Tensor& v, const PackedGoals& rows, int64_t S,
                      double scale);

}  // namespace maglev
