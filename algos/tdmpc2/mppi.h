#pragma once
// What a round of model-predictive path integral control does with the values of its sequences:
// the best ones, their weights and moments, and the choice at the end. One environment row.

#include <cstdint>
#include <vector>

#include "algos/tdmpc2/numbers.h"

namespace maglev::tdmpc2 {

struct RoundOptions {
  PlanSizes sizes;
  float temperature = 0.5f, min_std = 0.05f, max_std = 2.f;
};

/// Memory of one row's rounds.
struct Rounds {
  explicit Rounds(const PlanSizes& sizes);

  std::vector<float> actions;    ///< [H, S, A], policy trajectories first
  std::vector<float> values;     ///< [S]
  std::vector<float> mean, std;  ///< [H, A]
  std::vector<int32_t> order;    ///< [S], the E best first after end_round
  std::vector<float> scores;     ///< [E], their weights, which sum to 1
};

/// Before the first round: no mean, but the last plan's [H, A] moved by a step where there was one
/// (null: none); the largest deviation.
void begin_rounds(const RoundOptions& options, const float* previous, Rounds& rounds);

/// The E best sequences (of equals the first), weights exp(temperature * (value - best)), mean and
/// deviation of their actions. `mask` [A], 0 where a task has no such dimension, or null.
void end_round(const RoundOptions& options, const float* mask, Rounds& rounds);

/// Index of the elite whose logarithm of weight plus Gumbel noise is largest, from `uniforms` [E].
int64_t choose_elite(const Rounds& rounds, const float* uniforms);

}  // namespace maglev::tdmpc2
