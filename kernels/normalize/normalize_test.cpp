#include "kernels/normalize/normalize.h"

#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/core/philox.h"

namespace maglev {
namespace {

std::vector<float> numbers(int64_t count, float centre = 0, float spread = 1) {
  Rng rng(3, stream_id(Purpose::env, 1), 0);
  std::vector<float> x(static_cast<size_t>(count));
  for (auto& v : x) v = centre + spread * rng.uniform(-1, 1);
  return x;
}

struct Running {
  explicit Running(int64_t D) : mean(size_t(D), 0.f), var(size_t(D), 1.f) {}
  std::vector<float> mean, var;
  double count = 0;

  void absorb(const std::vector<float>& x, const std::vector<float>& weight = {}) {
    const int64_t D = int64_t(mean.size());
    std::vector<double> scratch(size_t(absorb_scratch(D)));
    absorb_moments_cpu({.x = x.data(),
                        .weight = weight.empty() ? nullptr : weight.data(),
                        .M = int64_t(x.size()) / D,
                        .D = D,
                        .moments = {mean.data(), var.data(), &count},
                        .scratch = scratch.data()});
  }
};

// the obvious two passes in f64
void expect_moments_of(const std::vector<float>& x, const Running& running) {
  const size_t D = running.mean.size(), M = x.size() / D;
  for (size_t c = 0; c < D; ++c) {
    double mean = 0, var = 0;
    for (size_t m = 0; m < M; ++m) mean += x[m * D + c] / double(M);
    for (size_t m = 0; m < M; ++m) var += (x[m * D + c] - mean) * (x[m * D + c] - mean) / double(M);
    EXPECT_NEAR(running.mean[c], mean, 1e-7 * (1 + std::abs(mean))) << c << " of " << D;
    EXPECT_NEAR(running.var[c], var, 2e-7 * (1e-3 + var)) << c << " of " << D;
  }
}

TEST(Normalize, moments_are_those_of_all_rows_whatever_their_number_and_width) {
  for (int64_t D : {1, 3, 4, 17, 63, 64, 200, 1500})
    for (int64_t M : {1, 2, 15, 16, 17, 100}) {
      const auto x = numbers(M * D, 5, 2);
      Running running(D);
      running.absorb(x);
      EXPECT_EQ(running.count, double(M));
      expect_moments_of(x, running);
    }
}

TEST(Normalize, a_large_mean_does_not_eat_a_small_deviation) {
  const auto x = numbers(3000, 4e6f, 8);
  Running running(3);
  running.absorb(x);
  expect_moments_of(x, running);
}

TEST(Normalize, rows_of_weight_0_are_left_out_and_no_rows_change_nothing) {
  Running some(2), all(2);
  all.absorb({1, 2, 5, 6});
  some.absorb({1, 2, 900, 900, 5, 6}, {1, 0, 1});
  some.absorb({900, 900}, {0});
  some.absorb({});
  EXPECT_EQ(some.mean, all.mean);
  EXPECT_EQ(some.var, all.var);
  EXPECT_EQ(some.count, 2);
  Running fresh(2);
  fresh.absorb({900, 900}, {0});
  EXPECT_EQ(fresh.var, (std::vector<float>{1, 1}));
}

TEST(Normalize, a_row_has_the_same_bits_wherever_it_stands) {
  for (int64_t D : {1, 4, 17, 63, 64, 1500}) {
    const int64_t M = 35;
    const auto x = numbers(M * D, 0, 30), mean = numbers(D), var = numbers(D, 2, 1);
    std::vector<float> all(x.size()), one(size_t(D), 0.f);
    normalize_cpu({x.data(), mean.data(), var.data(), all.data(), M, D, 10});
    for (int64_t m = 0; m < M; ++m) {
      normalize_cpu({x.data() + m * D, mean.data(), var.data(), one.data(), 1, D, 10});
      ASSERT_EQ(0, std::memcmp(one.data(), all.data() + m * D, one.size() * sizeof(float))) << m;
      for (int64_t c = 0; c < D; ++c) {
        const float exact = (x[size_t(m * D + c)] - mean[size_t(c)]) / std::sqrt(var[size_t(c)]);
        ASSERT_NEAR(one[size_t(c)], clamp_to(exact, 10), 1e-4f);
      }
    }
  }
}

TEST(Normalize, clips_far_numbers_and_keeps_nan) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x(40, std::numeric_limits<float>::quiet_NaN());
  x[0] = inf, x[17] = -inf, x[33] = 99, x[39] = -99;
  const float mean = 0, var = 1;
  normalize_cpu({x.data(), &mean, &var, x.data(), 40, 1, 5});
  for (size_t i = 0; i < x.size(); ++i) {
    if (i == 0 || i == 33) EXPECT_EQ(x[i], 5);
    else if (i == 17 || i == 39) EXPECT_EQ(x[i], -5);
    else EXPECT_TRUE(std::isnan(x[i])) << i;
  }
}

// column by column in plain f32, moments by absorb_moments_cpu of the returns it gives
TEST(Normalize, returns_are_scanned_into_their_moments) {
  for (int64_t N : {1, 3, 8, 21}) {
    const int64_t T = 40;
    const auto reward = numbers(T * N, 1, 3);
    std::vector<uint8_t> done(reward.size());
    std::vector<float> weight(reward.size(), 1.f), running(size_t(N), 0.5f), returns(reward.size());
    for (size_t i = 0; i < done.size(); ++i) done[i] = i % 7 == 3, weight[i] = i % 5 != 2;
    auto expected_running = running;
    for (int64_t t = 0; t < T; ++t)
      for (int64_t n = 0; n < N; ++n) {
        const size_t i = size_t(t * N + n);
        float& r = expected_running[size_t(n)];
        returns[i] = r = r * 0.9f + reward[i];
        if (done[i]) r = 0;
      }
    Running expected(1), came(1);
    expected.absorb(returns, weight);
    std::vector<double> scratch(size_t(return_scan_scratch(N)));
    absorb_returns_cpu({reward.data(),
                        done.data(),
                        weight.data(),
                        running.data(),
                        T,
                        N,
                        0.9f,
                        {came.mean.data(), came.var.data(), &came.count},
                        scratch.data()});
    EXPECT_EQ(running, expected_running);
    EXPECT_EQ(came.count, expected.count);
    EXPECT_NEAR(came.mean[0], expected.mean[0], 1e-6);
    EXPECT_NEAR(came.var[0], expected.var[0], 1e-5);
  }
}

}  // namespace
}  // namespace maglev
