#include "base/statistics/samples.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "base/core/error.h"
#include "base/core/philox.h"
#include "base/statistics/distributions.h"

namespace maglev {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

struct Moments {
  double n, mean, variance;  // n - 1 in the denominator
};

Moments moments(std::span<const double> values) {
  MAGLEV_ASSERT(!values.empty(), "moments are of values");
  const double n = double(values.size());
  // from the first one on: values that are all alike have no deviation, whatever their digits
  double sum = 0, squares = 0;
  for (double value : values) sum += value - values[0];
  const double mean = values[0] + sum / n;
  for (double value : values) squares += (value - mean) * (value - mean);
  return {n, mean, values.size() < 2 ? kUnknown : squares / (n - 1)};
}

double upper(double confidence) {
  MAGLEV_ASSERT(confidence > 0 && confidence < 1, "a confidence is a probability");
  return (1 + confidence) / 2;
}

Interval around(double middle, double half) { return {middle - half, middle + half}; }

// Welch and Satterthwaite's, of two means with these variances
double welch_degrees(double va, double na, double vb, double nb) {
  const double variance = va + vb;
  return variance * variance / (va * va / (na - 1) + vb * vb / (nb - 1));
}

// of sorted values, between neighbours as NumPy's default
double percentile(const std::vector<double>& sorted, double share) {
  const double at = share * double(sorted.size() - 1);
  const size_t below = size_t(at), above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - double(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Spread spread_of(std::span<const double> values, double confidence) {
  const Moments m = moments(values);
  if (values.size() < 2) return {m.mean, kUnknown, {kUnknown, kUnknown}};
  const double deviation = std::sqrt(m.variance);
  const double half = t_quantile(upper(confidence), m.n - 1) * deviation / std::sqrt(m.n);
  return {m.mean, deviation, around(m.mean, half)};
}

WelchTest welch_test(std::span<const double> first, std::span<const double> second,
                     double confidence) {
  MAGLEV_ASSERT(first.size() >= 2 && second.size() >= 2, "a deviation needs two values");
  const Moments a = moments(first), b = moments(second);
  const double va = a.variance / a.n, vb = b.variance / b.n, variance = va + vb;
  const double difference = a.mean - b.mean;
  if (variance == 0) {
    const double t = difference == 0 ? 0 : std::copysign(INFINITY, difference);
    return {difference, t, a.n + b.n - 2, difference == 0 ? 1.0 : 0.0, {difference, difference}};
  }
  const double error = std::sqrt(variance), t = difference / error;
  const double degrees = welch_degrees(va, a.n, vb, b.n);
  return {difference, t, degrees, 2 * t_cdf(-std::abs(t), degrees),
          around(difference, t_quantile(upper(confidence), degrees) * error)};
}

Ratio ratio_of(std::span<const double> first, std::span<const double> second, double confidence) {
  const Moments a = moments(first), b = moments(second);
  const double value = a.mean / b.mean;
  if (first.size() < 2 || second.size() < 2 || !(a.mean > 0) || !(b.mean > 0))
    return {value, {kUnknown, kUnknown}};
  // variances of the means' logarithms
  const double va = a.variance / a.n / (a.mean * a.mean), vb = b.variance / b.n / (b.mean * b.mean);
  if (va + vb == 0) return {value, {value, value}};
  const double half =
      t_quantile(upper(confidence), welch_degrees(va, a.n, vb, b.n)) * std::sqrt(va + vb);
  return {value, {value * std::exp(-half), value * std::exp(half)}};
}

EffectSize hedges_g(std::span<const double> first, std::span<const double> second,
                    double confidence) {
  MAGLEV_ASSERT(first.size() >= 2 && second.size() >= 2, "a deviation needs two values");
  const Moments a = moments(first), b = moments(second);
  const double degrees = a.n + b.n - 2;
  const double pooled = std::sqrt(((a.n - 1) * a.variance + (b.n - 1) * b.variance) / degrees);
  // the exact factor; 1 - 3 / (4 degrees - 1) is its approximation
  const double unbiased =
      std::exp(std::lgamma(degrees / 2) - std::lgamma((degrees - 1) / 2)) / std::sqrt(degrees / 2);
  const double g = unbiased * (a.mean - b.mean) / pooled;
  const double variance = (a.n + b.n) / (a.n * b.n) + g * g / (2 * (a.n + b.n));
  return {g, around(g, normal_quantile(upper(confidence)) * std::sqrt(variance))};
}

std::vector<double> holm(std::span<const double> p) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] < p[b]; });
  std::vector<double> adjusted(p.size());
  // the smallest counts for all, the next for one fewer; none below the one before
  double least = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    least = std::max(least, std::min(1.0, double(p.size() - i) * p[order[i]]));
    adjusted[order[i]] = least;
  }
  return adjusted;
}

double interquartile_mean(std::span<const double> values) {
  MAGLEV_ASSERT(!values.empty(), "a mean is of values");
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t out = sorted.size() / 4;
  return std::accumulate(sorted.begin() + out, sorted.end() - out, 0.0) /
         double(sorted.size() - 2 * out);
}

Interval bootstrap_interval(std::span<const double> values,
                            double (*statistic)(std::span<const double>), double confidence,
                            int64_t resamples, uint64_t seed) {
  if (values.size() < 2) return {kUnknown, kUnknown};
  std::vector<double> found(static_cast<size_t>(resamples)), drawn(values.size());
  for (int64_t r = 0; r < resamples; ++r) {
    Rng rng(seed, uint64_t(r), 0);
    for (double& value : drawn) value = values[size_t(rng.below(uint32_t(values.size())))];
    found[size_t(r)] = statistic(drawn);
  }
  std::sort(found.begin(), found.end());
  return {percentile(found, 1 - upper(confidence)), percentile(found, upper(confidence))};
}

Interval median_interval(std::span<const double> values, double confidence) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  // each value lies below the median as a coin falls: the chance that `count` of them do
  const double n = double(sorted.size());
  const auto chance = [n](double count) {
    return std::exp(std::lgamma(n + 1) - std::lgamma(count + 1) - std::lgamma(n - count + 1) -
                    n * std::numbers::ln2);
  };
  // values left out at each end, and the chance that the median lies beyond one of those that stay
  size_t out = 0;
  double outside = chance(0);
  while (2 * (out + 1) < sorted.size()) {
    outside += chance(double(out + 1));
    if (1 - 2 * outside < confidence) break;
    ++out;
  }
  return {sorted[out], sorted[sorted.size() - 1 - out]};
}

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

double median_of(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t half = sorted.size() / 2;
  return sorted.size() % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

Interval interquartile_interval(std::span<const double> values, double confidence,
                                int64_t resamples, uint64_t seed) {
  return bootstrap_interval(values, interquartile_mean, confidence, resamples, seed);
}

double probability_of_improvement(std::span<const double> first, std::span<const double> second) {
  double above = 0;
  for (const double a : first)
    for (const double b : second) above += a > b ? 1 : a == b ? 0.5 : 0;
  return above / double(first.size() * second.size());
}

Interval improvement_interval(std::span<const double> first, std::span<const double> second,
                              double confidence, int64_t resamples, uint64_t seed) {
  if (first.size() < 2 || second.size() < 2) return {kUnknown, kUnknown};
  std::vector<double> found(static_cast<size_t>(resamples)), a(first.size()), b(second.size());
  for (int64_t r = 0; r < resamples; ++r) {
    Rng rng(seed, uint64_t(r), 0);
    for (double& value : a) value = first[size_t(rng.below(uint32_t(first.size())))];
    for (double& value : b) value = second[size_t(rng.below(uint32_t(second.size())))];
    found[size_t(r)] = probability_of_improvement(a, b);
  }
  std::sort(found.begin(), found.end());
  return {percentile(found, 1 - upper(confidence)), percentile(found, upper(confidence))};
}

}  // namespace maglev
