#pragma once
// Which share of an experiment's seeds reaches each score.

#include <cstdint>
#include <span>
#include <vector>

#include "base/statistics/samples.h"

namespace maglev {

struct ProfileStep {
  double score;
  double share;       ///< of seeds whose score is at least this one
  Interval interval;  ///< of the share, NaN for fewer than two seeds
};

/// The performance profile of one task, its run-score distribution (Agarwal et al., 2021): a step at
/// each score that some seed has, ascending. Below a step, down to the one before, the share is the
/// step's; above the last it is 0. Intervals are bootstrap_interval's, at each score by itself.
std::vector<ProfileStep> performance_profile(std::span<const double> scores,
                                             double confidence = 0.95, int64_t resamples = 10'000,
                                             uint64_t seed = 1);

}  // namespace maglev
