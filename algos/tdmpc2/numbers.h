#pragma once
// Which random numbers plans and updates draw. Both are functions of a stream and an index alone,
// so that every implementation, on any device, in any batch, draws the same.

#include <cstdint>

#include "algos/tdmpc2/model_shape.h"
#include "base/core/philox.h"
#include "engine/algo/algorithm.h"
#include "kernels/noise/noise.h"

namespace maglev::tdmpc2 {

/// Sizes of a plan of one environment row.
struct PlanSizes {
  int64_t H = 0;  ///< horizon
  int64_t S = 0;  ///< sequences a round, policy trajectories among them, which come first
  int64_t P = 0;  ///< policy trajectories
  int64_t E = 0;  ///< elites
  int64_t I = 0;  ///< rounds
  int64_t A = 0;  ///< action dimensions
};

/// Where each kind of a plan's numbers begins, in the row's stream, behind step * kPlanNumbers.
/// Each begins at a multiple of four.
struct PlanNumbers {
  int64_t policy = 0;    ///< [H][P][A] normals: actions of the policy trajectories
  int64_t samples = 0;   ///< [I][H][S - P][A] normals
  int64_t terminal = 0;  ///< [I][S][A] normals: actions behind the horizon
  int64_t pair = 0;      ///< [I] uniforms: which two value networks
  int64_t gumbel = 0;    ///< [E] uniforms: which elite
  int64_t explore = 0;   ///< [A] normals added to the action; [A] uniforms of a random one
  int64_t shift = 0;     ///< [2] uniforms: shift of an image
  int64_t end = 0;

  explicit PlanNumbers(const PlanSizes& s) {
    int64_t offset = 0;
    auto take = [&offset](int64_t& begin, int64_t count) {
      begin = offset;
      offset += (count + 3) / 4 * 4;
    };
    take(policy, s.H * s.P * s.A);
    take(samples, s.I * s.H * (s.S - s.P) * s.A);
    take(terminal, s.I * s.S * s.A);
    take(pair, s.I);
    take(gumbel, s.E);
    take(explore, s.A);
    take(shift, 2);
    end = offset;
  }
};

/// Most numbers a plan may draw.
constexpr int64_t kPlanNumbers = int64_t(1) << 26;

/// Numbers from `begin` on of the plans of `rows` rows, from row `first_row` on or as key.rows
/// says.
inline NoiseFill plan_fill(const ActKey& key, int64_t first_row, int64_t rows, int64_t begin) {
  return {.seed = key.seed,
          .stream = stream_id(key.purpose, key.rows ? 0 : uint64_t(key.row_from(first_row))),
          .first = uint64_t(key.step * kPlanNumbers + begin),
          .rows = rows,
          .base = key.base,
          .base_scale = uint64_t(kPlanNumbers),
          .index = key.rows};
}
/// Likewise of the row alone that is number `r` of them.
inline NoiseFill plan_fill_of_row(ActKey key, int64_t first_row, int64_t r, int64_t begin) {
  if (key.rows) key.rows += r;
  return plan_fill(key, first_row + r, 1, begin);
}

/// Kinds of an update's numbers: each has a stream.
enum class UpdateNumbers : uint64_t {
  target_action = 0,   ///< [H][B][A] normals
  target_pair = 1,     ///< one uniform
  policy_action = 2,   ///< [H + 1][B][A] normals
  policy_pair = 3,     ///< one uniform
  value_dropout = 4,   ///< [num_q][H][B][hidden.q[0]] uniforms; dropped where below the share
  policy_dropout = 5,  ///< [2][H + 1][B][hidden.q[0]] uniforms, of the drawn pair
  image_shift = 6,     ///< [H + 1][B][2] uniforms
};

/// All of a kind of update number *update (where the numbers are drawn).
inline NoiseFill update_fill(uint64_t seed, UpdateNumbers kind, const int64_t* update) {
  return {.seed = seed,
          .stream = stream_id(Purpose::update, uint64_t(kind)),
          .first = 0,
          .rows = 1,
          .base = update,
          .base_scale = uint64_t(1) << 32};
}

/// Pairs of `num_q` value networks; pair p is the p-th of (0,1), (0,2), .., (1,2), ...
constexpr int64_t pair_count(int64_t num_q) { return num_q * (num_q - 1) / 2; }

struct QPair {
  int64_t first, second;
};
/// The pair that a uniform in (0, 1) draws.
MAGLEV_HD QPair q_pair(float uniform, int64_t num_q) {
  const int64_t pairs = num_q * (num_q - 1) / 2;
  int64_t left = int64_t(uniform * float(pairs));
  if (left >= pairs) left = pairs - 1;
  int64_t i = 0;
  for (; left >= num_q - 1 - i; ++i) left -= num_q - 1 - i;
  return {i, i + 1 + left};
}

}  // namespace maglev::tdmpc2
