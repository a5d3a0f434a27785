#include "base/statistics/power.h"

#include <algorithm>
#include <cmath>

#include "base/core/error.h"
#include "base/statistics/distributions.h"

namespace maglev {

double difference_error(Sizes n) { return std::sqrt(1 / double(n.first) + 1 / double(n.second)); }

double degrees_of(Sizes n) {
  const double a = double(n.first), b = double(n.second);
  // exact for equal sizes
  if (n.first == n.second) return 2 * a - 2;
  const double sum = 1 / a + 1 / b;
  return sum * sum / (1 / (a * a * (a - 1)) + 1 / (b * b * (b - 1)));
}

double power_of(double effect, int64_t n, double alpha) { return power_of(effect, {n, n}, alpha); }

double power_of(double effect, Sizes n, double alpha) {
  MAGLEV_ASSERT(n.first >= 2 && n.second >= 2, "a deviation needs two values");
  MAGLEV_ASSERT(alpha > 0 && alpha < 1, "alpha is a probability");
  const double degrees = degrees_of(n), shift = std::abs(effect) / difference_error(n);
  const double critical = t_quantile(1 - alpha / 2, degrees);
  return 1 - noncentral_t_cdf(critical, degrees, shift) +
         noncentral_t_cdf(-critical, degrees, shift);
}

int64_t needed_values(double effect, double power, double alpha) {
  return needed_values(effect, power, [alpha](int64_t) { return alpha; });
}

int64_t needed_values(double effect, double power, const std::function<double(int64_t)>& alpha) {
  MAGLEV_ASSERT(effect != 0, "no number of values finds no difference");
  MAGLEV_ASSERT(power > 0 && power < 1, "a power is a probability");
  constexpr int64_t kMost = 1'000'000;
  const auto enough = [&](int64_t n) { return power_of(effect, n, alpha(n)) >= power; };
  int64_t high = 2;
  while (high < kMost && !enough(high)) high = std::min(2 * high, kMost);
  if (!enough(high)) return 0;
  int64_t low = high / 2;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (middle >= 2 && enough(middle) ? high : low) = middle;
  }
  return high;
}

double detectable_effect(int64_t n, double power, double alpha) {
  return detectable_effect({n, n}, power, alpha);
}

double detectable_effect(Sizes n, double power, double alpha) {
  MAGLEV_ASSERT(power > 0 && power < 1, "a power is a probability");
  double low = 0, high = 1;
  while (power_of(high, n, alpha) < power) high *= 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (power_of(middle, n, alpha) < power ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace maglev
