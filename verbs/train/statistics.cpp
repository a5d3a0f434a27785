#include "verbs/train/statistics.h"

#include <cmath>
#include <iterator>
#include <limits>

#include "base/core/error.h"

namespace maglev::verbs::train {

double t_quantile(int64_t degrees) {
  MAGLEV_ASSERT(degrees >= 1, "a deviation has a degree of freedom");
  constexpr double kFirst[] = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646,
                               2.3060,  2.2622, 2.2281, 2.2010, 2.1788, 2.1604, 2.1448,
                               2.1314,  2.1199, 2.1098, 2.1009, 2.0930, 2.0860};
  if (degrees <= int64_t(std::size(kFirst))) return kFirst[degrees - 1];
  // the expansion around the normal quantile (Cornish and Fisher, 1938)
  const double z = 1.959964, n = double(degrees);
  return z + (std::pow(z, 3) + z) / (4 * n) +
         (5 * std::pow(z, 5) + 16 * std::pow(z, 3) + 3 * z) / (96 * n * n);
}

Spread spread_of(std::span<const double> values) {
  MAGLEV_ASSERT(!values.empty(), "a spread is of values");
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  const double n = double(values.size());
  double sum = 0, squares = 0;
  for (double value : values) sum += value;
  const double mean = sum / n;
  if (values.size() < 2) return {mean, kUnknown, kUnknown, kUnknown};
  for (double value : values) squares += (value - mean) * (value - mean);
  const double deviation = std::sqrt(squares / (n - 1));
  const double half = t_quantile(int64_t(values.size()) - 1) * deviation / std::sqrt(n);
  return {mean, deviation, mean - half, mean + half};
}

}  // namespace maglev::verbs::train
