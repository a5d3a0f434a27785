#pragma once
// What a few figures of an experiment, one a training seed, say of it and of its difference from
// another.

#include <cstdint>
#include <span>
#include <vector>

namespace maglev {

/// An interval in which the true value lies with the confidence asked for; NaN where it is unknown.
struct Interval {
  double low, high;
};

struct Spread {
  double mean;
  double deviation;   ///< n - 1 in the denominator; NaN for fewer than two values
  Interval interval;  ///< of the mean of further samples, of a normal population, by Student's t
};
/// At least one value, all finite. `confidence` is in (0, 1).
Spread spread_of(std::span<const double> values, double confidence = 0.95);

/// Welch's test that two normal populations of any deviations have one mean (Welch, 1947).
struct WelchTest {
  double difference;  ///< mean of the first less the second's
  double t, degrees;  ///< Welch and Satterthwaite's degrees of freedom
  double p;           ///< two-sided
  Interval interval;  ///< of the difference
};
/// Two values each at least. Two samples without any deviation: p is 1 where they agree, else 0.
WelchTest welch_test(std::span<const double> first, std::span<const double> second,
                     double confidence = 0.95);

/// The ratio of two normal populations' means, and its interval by that of its logarithm (the delta
/// method), of Welch and Satterthwaite's degrees of freedom.
struct Ratio {
  double value;
  Interval interval;
};
/// One value each at least. The interval is NaN for fewer than two, or where a mean is not above 0.
Ratio ratio_of(std::span<const double> first, std::span<const double> second,
               double confidence = 0.95);

/// The difference in pooled deviations, without the bias of small samples (Hedges, 1981), and its
/// interval by the large-sample variance.
struct EffectSize {
  double g;
  Interval interval;
};
/// Two values each at least; infinite or NaN without any deviation.
EffectSize hedges_g(std::span<const double> first, std::span<const double> second,
                    double confidence = 0.95);

/// The same p-values where several tests are made at once (Holm, 1979), in their order.
std::vector<double> holm(std::span<const double> p);

/// The percentile interval of `statistic` over `resamples` bootstrap samples of the values (Efron,
/// 1979), a function of `seed`; NaN for fewer than two values.
Interval bootstrap_interval(std::span<const double> values,
                            double (*statistic)(std::span<const double>), double confidence = 0.95,
                            int64_t resamples = 10'000, uint64_t seed = 1);
/// Of the median, by order statistics: the narrowest pair of values, as far from one end as from the
/// other, between which the median of any population lies with the confidence (Thompson, 1936). The
/// least and the most where there are too few values for it. At least one value.
Interval median_interval(std::span<const double> values, double confidence = 0.95);
/// Of at least one value.
double mean_of(std::span<const double> values);
double median_of(std::span<const double> values);

/// Mean of the middle half: a quarter of the values, rounded down, is left out at each end (Agarwal
/// et al., "Deep reinforcement learning at the edge of the statistical precipice", 2021).
double interquartile_mean(std::span<const double> values);
/// Its percentile interval over `resamples` bootstrap samples, a function of `seed`.
Interval interquartile_interval(std::span<const double> values, double confidence = 0.95,
                                int64_t resamples = 10'000, uint64_t seed = 1);

/// The chance that a value of the first is above one of the second, as often as not where they are
/// equal: Mann and Whitney's U over its most (Agarwal et al., 2021). One value each at least.
double probability_of_improvement(std::span<const double> first, std::span<const double> second);
/// Its percentile interval over `resamples` bootstrap samples of both, a function of `seed`; NaN for
/// fewer than two values on a side.
Interval improvement_interval(std::span<const double> first, std::span<const double> second,
                              double confidence = 0.95, int64_t resamples = 10'000,
                              uint64_t seed = 1);

}  // namespace maglev
