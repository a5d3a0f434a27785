#include "base/statistics/survival.h"

#include <numeric>

#include "base/core/error.h"

namespace maglev {

LifeTable::LifeTable(int64_t longest)
    : ended_(size_t(longest) + 1, 0), censored_(size_t(longest) + 1, 0) {
  MAGLEV_ASSERT(longest >= 1, "lives take steps");
}

void LifeTable::add(int64_t steps, bool ended) {
  MAGLEV_ASSERT(steps >= 0 && steps <= longest(), "a life fits its table");
  (ended ? ended_ : censored_)[size_t(steps)] += 1;
  total_ended_ += ended;
  total_ += 1;
}

std::vector<double> LifeTable::survival() const {
  std::vector<double> share(ended_.size());
  double lived = 1;
  int64_t at_risk = total_;
  for (size_t t = 0; t < share.size(); ++t) {
    // who is seen no further at t was seen to outlive those who end at t
    if (ended_[t] > 0) lived *= 1 - double(ended_[t]) / double(at_risk);
    share[t] = lived;
    at_risk -= ended_[t] + censored_[t];
  }
  return share;
}

double LifeTable::restricted_mean() const {
  const std::vector<double> share = survival();
  return std::accumulate(share.begin(), share.end() - 1, 0.0);
}

}  // namespace maglev
