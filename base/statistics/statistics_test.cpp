#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/core/philox.h"
#include "base/statistics/distributions.h"
#include "base/statistics/power.h"
#include "base/statistics/samples.h"

namespace maglev {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// what SciPy 1.17 and statsmodels 0.14 say

TEST(Distributions, are_scipys) {
  EXPECT_NEAR(normal_cdf(-8) / 6.22096057427174e-16, 1, 1e-9);
  EXPECT_NEAR(normal_cdf(-2.5), 0.006209665325776132, 1e-14);
  EXPECT_NEAR(normal_cdf(0.3), 0.6179114221889526, 1e-14);
  EXPECT_NEAR(normal_quantile(1e-12), -7.034483825301131, 1e-8);
  EXPECT_NEAR(normal_quantile(0.025), -1.9599639845400545, 1e-12);
  EXPECT_NEAR(normal_quantile(0.9), 1.2815515655446004, 1e-12);

  EXPECT_NEAR(t_cdf(-3.2, 1), 0.09641124797922958, 1e-13);
  EXPECT_NEAR(t_cdf(0.7, 2.5), 0.728297528405226, 1e-13);
  EXPECT_NEAR(t_cdf(2.1, 9), 0.967440858793924, 1e-13);
  EXPECT_NEAR(t_cdf(-12, 4) / 0.0001382142742514865, 1, 1e-11);
  EXPECT_NEAR(t_cdf(1.96, 1e5), 0.9750007184028492, 1e-11);
  EXPECT_NEAR(t_quantile(0.975, 1), 12.706204736174694, 1e-10);
  EXPECT_NEAR(t_quantile(0.975, 4), 2.7764451051977934, 1e-11);
  EXPECT_NEAR(t_quantile(0.995, 7.3), 3.451031655622185, 1e-11);
  EXPECT_NEAR(t_quantile(1e-6, 12), -8.504302718054584, 1e-9);
  EXPECT_NEAR(t_quantile(0.6, 200), 0.25368437919014747, 1e-12);

  EXPECT_NEAR(noncentral_t_cdf(2.0, 3, 1.5), 0.5996762683708929, 1e-9);
  EXPECT_NEAR(noncentral_t_cdf(1.0, 1, 0.5), 0.5927477364400293, 1e-7);
  EXPECT_NEAR(noncentral_t_cdf(-1.2, 8, 0.7), 0.03678513017832407, 1e-10);
  EXPECT_NEAR(noncentral_t_cdf(2.1, 18, 2.0), 0.5263507536250039, 1e-10);
  EXPECT_NEAR(noncentral_t_cdf(1.9, 198, 3.3), 0.0813497572706703, 1e-10);
  // without a shift it is Student's
  EXPECT_NEAR(noncentral_t_cdf(3.0, 2, 0), t_cdf(3.0, 2), 1e-9);
}

TEST(Distributions, quantiles_are_the_inverse) {
  for (double degrees : {1.0, 2.7, 30.0, 1e4})
    for (double p : {1e-9, 0.01, 0.3, 0.5, 0.77, 0.999})
      EXPECT_NEAR(t_cdf(t_quantile(p, degrees), degrees) / p, 1, 1e-9) << p << " " << degrees;
}

constexpr double kFirst[] = {12.1, 15.3, 11.8, 14.0, 13.2}, kSecond[] = {10.4, 9.9, 14.8, 11.1};

TEST(Samples, welch_test_is_scipys) {
  const WelchTest w = welch_test(kFirst, kSecond);
  EXPECT_NEAR(w.difference, 1.73, 1e-12);
  EXPECT_NEAR(w.t, 1.3494364622658224, 1e-12);
  EXPECT_NEAR(w.degrees, 4.91483034868622, 1e-11);
  EXPECT_NEAR(w.p, 0.23602219989521758, 1e-11);
  EXPECT_NEAR(w.interval.low, -1.5827799581713409, 1e-9);
  EXPECT_NEAR(w.interval.high, 5.042779958171342, 1e-9);
  // in the other order the same, turned round
  EXPECT_NEAR(welch_test(kSecond, kFirst).p, w.p, 1e-14);
  EXPECT_NEAR(welch_test(kSecond, kFirst).interval.low, -w.interval.high, 1e-12);
}

TEST(Samples, without_any_deviation_a_difference_is_certain_or_none) {
  const double one[] = {2, 2, 2}, same[] = {2, 2}, other[] = {3, 3};
  EXPECT_EQ(welch_test(one, same).p, 1);
  EXPECT_EQ(welch_test(one, other).p, 0);
  EXPECT_EQ(welch_test(one, other).t, -kInf);
}

TEST(Samples, a_ratio_of_means_is_within_the_interval_of_its_logarithm) {
  const std::vector<double> first{8, 10, 12}, second{4, 5, 6};
  const Ratio ratio = ratio_of(first, second);
  EXPECT_DOUBLE_EQ(ratio.value, 2);
  // both logarithms have the variance 4 / 3 / 100: of 4 degrees of freedom together
  const double half = t_quantile(0.975, 4) * std::sqrt(2 * 4. / 3 / 100);
  EXPECT_NEAR(ratio.interval.low, 2 * std::exp(-half), 1e-12);
  EXPECT_NEAR(ratio.interval.high, 2 * std::exp(half), 1e-12);
  const std::vector<double> one{5}, none{-1, 1};
  EXPECT_TRUE(std::isnan(ratio_of(first, one).interval.low)) << "its deviation is unknown";
  EXPECT_TRUE(std::isnan(ratio_of(first, none).interval.high)) << "no ratio to 0";
}

TEST(Samples, a_ratios_interval_covers_it_as_often_as_it_says) {
  int covered = 0;
  constexpr int kTimes = 4000;
  for (int i = 0; i < kTimes; ++i) {
    Rng rng(uint64_t(i), stream_id(Purpose::eval, 3), 0);
    const auto drawn = [&](double mean) {
      std::vector<double> values(5);
      for (double& x : values) x = mean + normal_quantile((rng.below(1 << 20) + 0.5) / (1 << 20));
      return values;
    };
    const std::vector<double> first = drawn(10), second = drawn(5);
    const Interval found = ratio_of(first, second).interval;
    covered += found.low < 2 && 2 < found.high;
  }
  EXPECT_NEAR(double(covered) / kTimes, 0.95, 0.015);
}

TEST(Samples, hedges_g_is_cohens_d_without_its_bias) {
  const EffectSize e = hedges_g(kFirst, kSecond);
  EXPECT_NEAR(e.g, 0.847739225793252, 1e-12);
  EXPECT_LT(e.interval.low, e.g);
  EXPECT_NEAR(e.interval.high - e.g, e.g - e.interval.low, 1e-12);
  EXPECT_NEAR(hedges_g(kSecond, kFirst).g, -e.g, 1e-14);
  EXPECT_EQ(hedges_g(kFirst, kFirst).g, 0);
}

TEST(Samples, a_mean_s_interval_is_students) {
  const double values[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};
  const Spread s = spread_of(values);
  EXPECT_NEAR(s.interval.low, 2.410209408732996, 1e-11);
  EXPECT_NEAR(s.interval.high, 5.589790591267004, 1e-11);
  const Spread wider = spread_of(values, 0.99);
  EXPECT_LT(wider.interval.low, s.interval.low);
  // one value says nothing of how far others lie
  const double one[] = {7};
  EXPECT_EQ(spread_of(one).mean, 7);
  EXPECT_TRUE(std::isnan(spread_of(one).deviation));
  EXPECT_TRUE(std::isnan(spread_of(one).interval.low));
}

TEST(Samples, holm_is_statsmodels) {
  const double p[] = {0.01, 0.04, 0.03, 0.005, 0.5};
  const std::vector<double> expected{0.04, 0.09, 0.09, 0.025, 0.5}, came = holm(p);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(came[i], expected[i], 1e-12) << i;
  const double large[] = {0.6, 0.9};
  EXPECT_EQ(holm(large)[0], 1);
}

// SciPy's mannwhitneyu: U = 10.5 of 15; 50,000 resamples of NumPy's generator give 0.3 to 1
TEST(Samples, probability_of_improvement_is_mann_and_whitneys_u) {
  const std::vector<double> a{3, 5, 1, 4, 4}, b{2, 4, 1}, one{2};
  EXPECT_NEAR(probability_of_improvement(a, b), 0.7, 1e-14);
  EXPECT_NEAR(probability_of_improvement(b, a), 0.3, 1e-14);
  EXPECT_EQ(probability_of_improvement(a, a), 0.5);
  const Interval i = improvement_interval(a, b);
  EXPECT_NEAR(i.low, 0.3, 0.04);
  EXPECT_EQ(i.high, 1);
  EXPECT_EQ(i.low, improvement_interval(a, b).low);
  EXPECT_TRUE(std::isnan(improvement_interval(a, one).low));
  EXPECT_EQ(probability_of_improvement(a, one), 0.8);
}

// rliable 1.2 gives 3.857 and, with 50,000 resamples and each of three generators, 2.4286 to 5.2857
TEST(Samples, interquartile_mean_and_interval_are_rliables) {
  const double values[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};
  EXPECT_NEAR(interquartile_mean(values), 3.857142857142857, 1e-14);
  const Interval i = interquartile_interval(values);
  EXPECT_NEAR(i.low, 2.4286, 0.1);
  EXPECT_NEAR(i.high, 5.2857, 0.1);
  // a function of its seed
  EXPECT_EQ(i.low, interquartile_interval(values).low);
  // few values are all in the middle
  const double three[] = {1, 2, 6};
  EXPECT_EQ(interquartile_mean(three), 3);
  const double one[] = {1};
  EXPECT_TRUE(std::isnan(interquartile_interval(one).low));
}

TEST(Power, is_statsmodels) {
  EXPECT_NEAR(power_of(0.5, 64), 0.8014595579222542, 1e-9);
  EXPECT_NEAR(power_of(1.2, 5), 0.38643726101220877, 1e-9);
  EXPECT_NEAR(power_of(3, 3), 0.7825543870581168, 1e-9);
  EXPECT_NEAR(power_of(0.2, 10), 0.07082134518931064, 1e-9);
  EXPECT_EQ(needed_values(0.5), 64);  // 63.77
  EXPECT_EQ(needed_values(-0.8), 26);
  EXPECT_EQ(needed_values(2.0), 6);
  // its solver stops at 1e-6
  EXPECT_NEAR(detectable_effect(3), 3.070892269599019, 2e-6);
  EXPECT_NEAR(detectable_effect(5), 2.024440145655355, 2e-6);
  EXPECT_NEAR(detectable_effect(100), 0.3981391138964959, 2e-6);
}

// Welch's degrees by hand: (1/3 + 1/4)^2 / (1/18 + 1/48) of 3 and 4, in SciPy's nct
TEST(Power, counts_both_sizes) {
  EXPECT_NEAR(degrees_of({3, 4}), 4.454545454545454, 1e-12);
  EXPECT_EQ(degrees_of({3, 3}), 4);
  EXPECT_NEAR(power_of(2, {3, 4}), 0.5357679856210135, 1e-9);
  EXPECT_NEAR(power_of(1, {30, 5}), 0.4004841958524898, 1e-9);
  EXPECT_NEAR(power_of(detectable_effect({3, 30}), {3, 30}), 0.8, 1e-9);
}

TEST(Samples, values_that_are_alike_have_no_deviation_whatever_their_digits) {
  for (const double value : {0.9, 0.1, 1.0 / 3, 1e-9, 123456.789})
    for (size_t n : {3, 7, 11, 40}) {
      const std::vector<double> few(3, value), many(n, value);
      EXPECT_EQ(spread_of(many).deviation, 0) << value;
      EXPECT_EQ(welch_test(many, few).p, 1) << value;
    }
}

TEST(Power, beyond_a_million_values_none_are_said) { EXPECT_EQ(needed_values(1e-4), 0); }

TEST(Power, grows_with_values_and_with_the_effect) {
  for (int64_t n = 2; n < 40; n += 5) EXPECT_LT(power_of(0.7, n), power_of(0.7, n + 1));
  EXPECT_LT(power_of(0.5, 10), power_of(0.6, 10));
  EXPECT_NEAR(power_of(0, 10), 0.05, 1e-9);
  for (double effect : {0.4, 1.0, 3.0}) {
    const int64_t n = needed_values(effect, 0.9);
    EXPECT_GE(power_of(effect, n), 0.9);
    EXPECT_LT(n > 2 ? power_of(effect, n - 1) : 0, 0.9);
  }
}

TEST(Samples, interval_of_a_mean_is_near_the_normal_one) {
  std::vector<double> values;
  Rng rng(7, stream_id(Purpose::eval, 9), 0);
  double sum = 0, squares = 0;
  for (int i = 0; i < 400; ++i) {
    values.push_back(rng.uniform());
    sum += values.back(), squares += values.back() * values.back();
  }
  const double mean = sum / 400, error = std::sqrt((squares / 400 - mean * mean) / 400);
  const Interval interval = bootstrap_interval(values, mean_of);
  EXPECT_NEAR(interval.low, mean - 1.96 * error, 0.3 * error);
  EXPECT_NEAR(interval.high, mean + 1.96 * error, 0.3 * error);
  EXPECT_TRUE(std::isnan(bootstrap_interval({}, mean_of).low));
}

TEST(Samples, interval_of_a_median_is_of_the_order_statistics_that_cover_it) {
  // values left out at each end, as tables of the sign test have them
  const std::pair<int, int> outs[] = {{1, 0},  {2, 0},    {3, 0},      {6, 0},  {7, 0},
                                      {8, 0},  {9, 1},    {11, 1},     {12, 2}, {15, 3},
                                      {20, 5}, {100, 39}, {3000, 1445}};
  for (const auto& [n, out] : outs) {
    std::vector<double> values;
    for (int i = 0; i < n; ++i) values.push_back(double((i * 7 + 3) % n));  // 0 to n - 1
    if (n % 7 == 0) std::iota(values.begin(), values.end(), 0.0);
    const Interval interval = median_interval(values);
    EXPECT_EQ(interval.low, out) << n;
    EXPECT_EQ(interval.high, n - 1 - out) << n;
  }
}

TEST(Samples, interval_of_a_median_covers_it_as_often_as_it_says) {
  Rng rng(5, stream_id(Purpose::eval, 9), 0);
  for (const int n : {6, 7, 9, 15}) {
    int covered = 0;
    for (int i = 0; i < 4000; ++i) {
      std::vector<double> values;
      for (int k = 0; k < n; ++k)
        values.push_back(std::exp(normal_quantile((rng.below(1 << 20) + 0.5) / (1 << 20))));
      const Interval interval = median_interval(values);
      covered += interval.low <= 1 && 1 <= interval.high;
    }
    EXPECT_GE(covered, 0.94 * 4000) << n;
  }
}

}  // namespace
}  // namespace maglev
