#pragma once
// Random numbers of a search: a function of its seed and of the number of the trial, which is the
// stream. No purpose (philox.h) has such streams, so a run with the same seed draws others.

#include <cmath>
#include <cstdint>

#include "base/core/philox.h"
#include "base/statistics/distributions.h"

namespace maglev::search {

class Draws {
 public:
  Draws(uint64_t seed, int64_t number) : rng_(seed, uint64_t(number), 0) {}

  /// In (0, 1).
  double uniform() {
    const uint64_t high = rng_.bits() >> 5, low = rng_.bits() >> 6;
    return (double(high) * 67108864. + double(low) + 0.5) / 9007199254740992.;
  }
  double normal() { return normal_quantile(uniform()); }
  uint32_t below(uint32_t n) { return rng_.below(n); }

 private:
  Rng rng_;
};

}  // namespace maglev::search
