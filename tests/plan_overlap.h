#pragma once
// What a plan in bfloat16 may differ by from one in f32: bounds for both planners.

#include <cmath>

#include "algos/tdmpc2/options.h"
#include "engine/device/tolerance.h"

namespace maglev::tdmpc2 {

/// The mean error of values, in deviations of theirs: weights, products and outputs of each layer
/// on the way are rounded once, three layers a network, the dynamics of every step and a value
/// network.
inline double bf16_value_error(const Options& o) {
  const double roundings = 3 * 3 * double(o.horizon + 1);
  return 2 * std::sqrt(roundings) * kRoundBf16;
}

/// The share of elites that `rows` plans keep at least where values have that mean error. Near the
/// bar that E of S normal values pass lie S density of them a deviation, and an error carries half
/// its size of those across, each way; four deviations of their count are allowed.
inline double least_overlap(const Options& o, int64_t rows, double value_error) {
  // the normal density where an eighth lies above, as with 64 elites of 512
  constexpr double kDensity = 0.206;
  const double elites = double(rows * o.elites);
  const double lost = double(rows * o.samples) * kDensity * value_error / 2;
  return 1 - (lost + 4 * std::sqrt(lost)) / elites;
}

}  // namespace maglev::tdmpc2
