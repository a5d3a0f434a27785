#include "base/statistics/distributions.h"

#include <algorithm>
#include <cmath>

#include "base/core/error.h"

namespace maglev {
namespace {

// The continued fraction of the incomplete beta function by Lentz's method (Press et al.,
// "Numerical recipes", 6.4).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300, kClose = 1e-15;
  constexpr int kMost = 10'000;
  const auto away_from_zero = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), value = d;
  for (int m = 1; m < kMost; ++m) {
    const auto step = [&](double numerator) {
      d = 1 / away_from_zero(1 + numerator * d);
      c = away_from_zero(1 + numerator / c);
      value *= c * d;
    };
    step(m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)));
    step(-(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)));
    if (std::abs(c * d - 1) < kClose) break;
  }
  return value;
}

// regularised: P(B <= x) of a beta variable
double incomplete_beta(double a, double b, double x) {
  if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  // the fraction converges fast on this side of the mean
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

// the root of an increasing function, to the last bits of a double
template <class Function>
double increasing_root(const Function& f, double low, double high) {
  while (f(low) > 0) low *= 2;
  while (f(high) < 0) high *= 2;
  for (int i = 0; i < 200; ++i) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    (f(middle) < 0 ? low : high) = middle;
  }
  return low + (high - low) / 2;
}

}  // namespace

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

double normal_quantile(double p) {
  MAGLEV_ASSERT(p > 0 && p < 1, "a quantile is of a probability");
  return increasing_root([p](double x) { return normal_cdf(x) - p; }, -1, 1);
}

double t_cdf(double t, double degrees) {
  MAGLEV_ASSERT(degrees > 0, "Student's t has degrees of freedom");
  // both tails beyond |t|
  const double tails = incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t));
  return t > 0 ? 1 - tails / 2 : tails / 2;
}

double t_quantile(double p, double degrees) {
  MAGLEV_ASSERT(p > 0 && p < 1, "a quantile is of a probability");
  // from the lower tail, where a small probability keeps its digits
  if (p > 0.5) return -t_quantile(1 - p, degrees);
  return increasing_root([&](double t) { return t_cdf(t, degrees) - p; }, -1, 1);
}

double noncentral_t_cdf(double t, double degrees, double shift) {
  MAGLEV_ASSERT(degrees > 0, "the noncentral t has degrees of freedom");
  // the mean of P(Z <= t s - shift) over s = sqrt(chi2 / degrees), by Simpson's rule where s has
  // any weight; s is near 1, its deviation about 1 / sqrt(2 degrees)
  constexpr int kIntervals = 4000;
  constexpr double kDeviations = 40;
  const double spread = 1 / std::sqrt(2 * degrees);
  const double low = std::max(0.0, 1 - kDeviations * spread), high = 1 + kDeviations * spread;
  const double constant =
      std::log(2.0) + degrees / 2 * std::log(degrees / 2) - std::lgamma(degrees / 2);
  const auto density = [&](double s) {
    if (s <= 0) return degrees == 1 ? std::exp(constant) : 0.0;
    return std::exp(constant + (degrees - 1) * std::log(s) - degrees / 2 * s * s);
  };
  double sum = 0;
  for (int i = 0; i <= kIntervals; ++i) {
    const double s = low + (high - low) * i / kIntervals;
    const double weight = i == 0 || i == kIntervals ? 1 : i % 2 == 1 ? 4 : 2;
    sum += weight * density(s) * normal_cdf(t * s - shift);
  }
  return std::clamp(sum * (high - low) / kIntervals / 3, 0.0, 1.0);
}

}  // namespace maglev
