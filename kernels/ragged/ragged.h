#pragma once
// Rows that have another number of successors each: packed without the empty slots, equal ones
// once; and each row's products with its own successors.

#include <cstdint>

#include "base/core/hd.h"

namespace maglev {

/// Goals are `width` numbers: atoms of three, of which the first is the predicate.
struct GoalColumns {
  const int32_t* states;  ///< [B, width]; null: none
  const int32_t*
      successors;  ///< [B, slots, width]; null: none. The first that begins with 0 ends them
  int64_t B, slots, width;

  /// Places of goals: all states, then all slots row after row.
  MAGLEV_HD int64_t places() const { return (states ? B : 0) + (successors ? B * slots : 0); }
  MAGLEV_HD const int32_t* goal(int64_t place) const {
    const int64_t behind = place - (states ? B : 0);
    return behind < 0 ? states + place * width : successors + behind * width;
  }
};

/// Successors of all rows.
int64_t count_successors_cpu(const GoalColumns& columns);

/// Where a number of a goal would stand: there is no goal; there was no room for it.
constexpr int32_t kNoGoal = -1, kNoRoom = -2;

/// Goals of a block of threads.
constexpr int64_t kGoalsOfBlock = 256;
constexpr int64_t goal_blocks(int64_t places) {
  return (places + kGoalsOfBlock - 1) / kGoalsOfBlock;
}

/// Numbers goals in the order in which they first occur: all states, then successors row after row.
struct UniqueGoals {
  GoalColumns columns;
  int64_t room;        ///< goals there is room for
  int32_t* goals;      ///< [room, width], each once, written as far as there are
  int32_t* state;      ///< [B], number of each row's state, written
  int32_t* successor;  ///< [B, slots], likewise of each successor; kNoGoal behind the last one
  int32_t* table;      ///< [table_size], -1; scratch
  int64_t table_size;  ///< a power of two, more than there are goals
  // a device's alone, scratch
  int32_t* number;  ///< [table_size]
  int32_t* firsts;  ///< [goal_blocks(places)]
};
struct GoalCounts {
  int64_t states, all;  ///< different ones that found room; states have the first numbers
};
/// Equal means equal numbers: hashes only say where to look.
GoalCounts unique_goals_cpu(const UniqueGoals& args);
/// The same numbers. On `stream` (a cudaStream_t); returns a cudaError_t, as those below. Only in
/// builds with device code.
int unique_goals_cuda(const UniqueGoals& args, void* stream);

MAGLEV_HD uint64_t hash_of_goal(const int32_t* goal, int64_t width) {
  uint64_t hash = 0x9E3779B97F4A7C15u;
  for (int64_t i = 0; i < width; ++i) {
    // splitmix64's mixer
    hash = (hash ^ uint32_t(goal[i])) * 0xBF58476D1CE4E5B9u;
    hash ^= hash >> 31;
  }
  return hash * 0x94D049BB133111EBu >> 32;
}

/// logits[b, i] = scale <u[state[b]], v[successor[b, i]]>; 0 where there is no goal, and no number
/// where there was no room for it.
struct RaggedDot {
  const float *u, *v;        ///< [.., width]
  const int32_t* state;      ///< [B]
  const int32_t* successor;  ///< [B, slots]
  int64_t B, slots, width;
  float scale;
  float* logits;  ///< [B, slots], written
};
void ragged_dot_cpu(const RaggedDot& args);
int ragged_dot_cuda(const RaggedDot& args, void* stream);

/// What comes back to each row's u: d_u[b] = scale * sum over i of d_logits[b, i] v[successor[b,
/// i]].
struct RaggedDotBack {
  RaggedDot of;
  const float* d_logits;  ///< [B, slots]
  float* d_u;             ///< [B, width], written
};
void ragged_dot_back_cpu(const RaggedDotBack& args);
int ragged_dot_back_cuda(const RaggedDotBack& args, void* stream);

}  // namespace maglev
