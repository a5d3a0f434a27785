#pragma once
#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

namespace maglev {

/// The goals of rows without empty slots and each once, numbered by where they first occur. Behind
/// them stand zeros: a library's products make their code for each number of rows anew, so few
/// numbers should occur.
struct PackedGoals {
  at::Tensor goals;      ///< [packed_size(all), A, 3] i32, or [room, A, 3]
  int64_t states = 0;    ///< among the first so many lie the different states
  int64_t all = 0;       ///< goals, of a room its places
  at::Tensor state;      ///< [B] i32, the number of each row's state; undefined without states
  at::Tensor successor;  ///< [B, S] i32, of each successor, kNoGoal behind a row's last; undefined
                         ///< without
};
/// `count` and what is taken besides; never falls where count grows.
int64_t packed_size(int64_t count);

/// states [B, A, 3] i32, successors [B, S, A, 3] i32, contiguous; either may be undefined. A
/// successor whose first predicate is 0 ends those of its row.
///   room  places for different goals, states before all. A successor for which there is none gets
///         kNoRoom for a number. Left out: as many as there are, which only a processor can say.
/// With a room graph-safe; the numbers are the same on every device.
PackedGoals pack_goals(const at::Tensor& states, const at::Tensor& successors,
                       std::optional<int64_t> room = {});

/// logits [B, S] f32: scale times the product of row b's u [.., E] with its successors' v [.., E],
/// both f32 with gradients; 0 behind the last one, and no number for one that found no room. `rows`
/// numbers u by `state` and v by `successor`. Graph-safe.
at::Tensor ragged_dot(const at::Tensor& u, const at::Tensor& v, const PackedGoals& rows,
                      double scale);

}  // namespace maglev
