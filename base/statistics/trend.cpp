#include "base/statistics/trend.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace maglev {

Trend trend_of(std::span<const double> x, std::span<const double> y) {
  const size_t n = std::min(x.size(), y.size());
  if (n < 4) return {};

  // every pair: its slope, and whether it rises
  std::vector<double> slopes;
  double s = 0;
  for (size_t i = 0; i < n; ++i)
    for (size_t j = i + 1; j < n; ++j) {
      if (x[j] > x[i]) slopes.push_back((y[j] - y[i]) / (x[j] - x[i]));
      s += (y[j] > y[i]) - (y[j] < y[i]);
    }
  if (slopes.empty()) return {};
  const auto middle = slopes.begin() + std::ptrdiff_t(slopes.size() / 2);
  std::nth_element(slopes.begin(), middle, slopes.end());
  double median = *middle;
  if (slopes.size() % 2 == 0) median = (median + *std::max_element(slopes.begin(), middle)) / 2;

  // the deviation of S where there is no trend, less what equal values take from it
  std::map<double, double> ties;
  for (size_t i = 0; i < n; ++i) ++ties[y[i]];
  const auto term = [](double k) { return k * (k - 1) * (2 * k + 5); };
  double variance = term(double(n));
  for (const auto& [value, count] : ties) variance -= term(count);
  if (variance <= 0) return {.slope = median};
  const double z = std::max(0.0, std::abs(s) - 1) / std::sqrt(variance / 18);
  return {.slope = median, .p = std::erfc(z / std::sqrt(2.0))};
}

}  // namespace maglev
