#pragma once
// Rows that have another number of successors each: packed without the empty slots, equal ones
// once; and each row's products with its own successors.

#include <cstdint>

namespace maglev {

/// Goals are `width` numbers: atoms of three, of which the first is the predicate.
struct GoalColumns {
  const int32_t* states;  ///< [B, width]; null: none
  const int32_t*
      successors;  ///< [B, slots, width]; null: none. The first that begins with 0 ends them
  int64_t B, slots, width;
};

/// Writes where the successors of each row begin, [B + 1].
void successor_offsets_cpu(const GoalColumns& columns, int32_t* offsets);

/// Numbers goals in the order in which they first occur: all states, then successors row after row.
struct UniqueGoals {
  GoalColumns columns;
  const int32_t* offsets;  ///< [B + 1], as above
  int32_t* goals;          ///< [states and successors, width], each once, written
  int32_t* state;          ///< [B], number of each row's state, written
  int32_t* successor;      ///< [offsets[B]], likewise of each successor
  int32_t* table;          ///< [table_size], scratch
  int64_t table_size;      ///< a power of two, more than there are goals
};
struct GoalCounts {
  int64_t states, all;  ///< different ones; states have the first numbers
};
/// Equal means equal numbers: hashes only say where to look.
GoalCounts unique_goals_cpu(const UniqueGoals& args);

/// logits[b, i] = scale <u[state[b]], v[successor[offsets[b] + i]]>, and 0 behind a row's successors.
struct RaggedDot {
  const float *u, *v;        ///< [.., width]
  const int32_t* state;      ///< [B]
  const int32_t* successor;  ///< [offsets[B]]
  const int32_t* offsets;    ///< [B + 1]
  int64_t B, slots, width;
  float scale;
  float* logits;  ///< [B, slots], written
};
void ragged_dot_cpu(const RaggedDot& args);

struct RaggedDotBack {
  RaggedDot of;
  const float* d_logits;  ///< [B, slots]
  float *d_u, *d_v;       ///< as u and v, added to
};
void ragged_dot_back_cpu(const RaggedDotBack& args);

}  // namespace maglev
