#include "base/statistics/profile.h"

#include <algorithm>

namespace maglev {

std::vector<ProfileStep> performance_profile(std::span<const double> scores, double confidence,
                                             int64_t resamples, uint64_t seed) {
  std::vector<double> sorted(scores.begin(), scores.end());
  std::sort(sorted.begin(), sorted.end());
  // a share is a mean of ones, of seeds that reach the score, and zeros
  std::vector<double> reached(sorted.size(), 1.0);
  std::vector<ProfileStep> steps;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i == 0 || sorted[i] != sorted[i - 1])
      steps.push_back({sorted[i], mean_of(reached),
                       bootstrap_interval(reached, mean_of, confidence, resamples, seed)});
    reached[i] = 0;
  }
  return steps;
}

}  // namespace maglev
