#include "kernels/popart/popart.h"

#include <vector>

#include <gtest/gtest.h>

#include "base/core/philox.h"

namespace maglev {
namespace {

struct Head {
  std::vector<float> weight, first, second_moment;
  float bias = 0.25f, mean = 0, var = 1, std = 1, count = 0, scale = 1;

  explicit Head(int64_t F)
      : weight(size_t(F), 0.5f), first(size_t(F) + 1, 1.f), second_moment(size_t(F) + 1, 1.f) {}
  void absorb(const std::vector<float>& returns, const std::vector<float>& weights,
              float beta_min = 1e-3f) {
    popart_cpu({.returns = returns.data(),
                .weight = weights.data(),
                .M = int64_t(returns.size()),
                .beta_min = beta_min,
                .mean = &mean,
                .var = &var,
                .std = &std,
                .count = &count,
                .scale = &scale,
                .head_weight = weight.data(),
                .head_bias = &bias,
                .adam_first = first.data(),
                .adam_second = second_moment.data(),
                .F = int64_t(weight.size())});
  }
};

std::vector<float> returns_around(int64_t count, float centre, float spread) {
  Rng rng(8, stream_id(Purpose::env, 2), 0);
  std::vector<float> x(static_cast<size_t>(count));
  for (auto& v : x) v = centre + spread * rng.uniform(-1, 1);
  return x;
}

TEST(PopArt, the_first_returns_set_mean_and_deviation) {
  for (int64_t M : {2, 15, 16, 17, 100, 1000}) {
    const auto returns = returns_around(M, 50, 20);
    Head head(3);
    head.absorb(returns, std::vector<float>(returns.size(), 1.f));
    double mean = 0, var = 0;
    for (float r : returns) mean += r / double(M);
    for (float r : returns) var += (r - mean) * (r - mean) / double(M);
    EXPECT_NEAR(head.mean, mean, 1e-5) << M;
    EXPECT_NEAR(head.std, std::sqrt(var), 1e-5) << M;
  }
}

TEST(PopArt, outputs_stay_and_the_optimisers_moments_follow_the_weights) {
  for (int64_t F : {1, 15, 16, 33}) {
    Head head(F);
    const auto output = [&](float feature) {
      double sum = head.bias;
      for (float w : head.weight) sum += w * feature;
      return sum * head.std + head.mean;
    };
    for (float size : {1.f, 50.f, 2000.f, 3.f}) {
      const double before = output(0.7f);
      const float weight = head.weight[0], first = head.first[0], second = head.second_moment[0];
      head.absorb(returns_around(64, 3 * size, size), std::vector<float>(64, 1.f));
      EXPECT_NEAR(output(0.7f), before, 1e-5 * (head.std + std::abs(before)));
      EXPECT_FLOAT_EQ(head.weight[0], weight * head.scale);
      for (float m : head.first) EXPECT_FLOAT_EQ(m, first * head.scale);
      for (float m : head.second_moment) EXPECT_FLOAT_EQ(m, second * head.scale * head.scale);
    }
  }
}

TEST(PopArt, returns_of_weight_0_are_left_out_wherever_they_stand) {
  auto returns = returns_around(40, 5, 2);
  std::vector<float> kept, weights(40, 1.f);
  for (size_t i = 0; i < 40; ++i) {
    if (i % 3 == 0) returns[i] = 1e6f, weights[i] = 0;
    else kept.push_back(returns[i]);
  }
  Head all(2), some(2);
  all.absorb(kept, std::vector<float>(kept.size(), 1.f));
  some.absorb(returns, weights);
  EXPECT_FLOAT_EQ(some.mean, all.mean);
  EXPECT_FLOAT_EQ(some.std, all.std);
}

// far from 0 the spread is all that is left of the squares
TEST(PopArt, a_small_spread_far_from_0_is_found) {
  Head head(2);
  for (int i = 0; i < 3000; ++i)
    head.absorb(returns_around(2048, 1000, 0.1f), std::vector<float>(2048, 1.f));
  EXPECT_NEAR(head.std, 0.1 / std::sqrt(3.), 2e-3);
  EXPECT_NEAR(head.mean, 1000, 1e-2);
}

TEST(PopArt, without_a_return_nothing_moves) {
  Head head(2), before(2);
  head.absorb({5, 6}, {0, 0});
  EXPECT_EQ(head.mean, before.mean);
  EXPECT_EQ(head.std, before.std);
  EXPECT_EQ(head.count, before.count);
  EXPECT_EQ(head.scale, 1);
  EXPECT_EQ(head.weight, before.weight);
}

TEST(PopArt, constant_returns_have_a_least_deviation) {
  Head head(2);
  head.absorb(std::vector<float>(16, 7.f), std::vector<float>(16, 1.f));
  EXPECT_FLOAT_EQ(head.std, 1e-4f);
  EXPECT_FLOAT_EQ(head.mean, 7);
}

}  // namespace
}  // namespace maglev
