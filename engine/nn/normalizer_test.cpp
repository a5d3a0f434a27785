#include "engine/nn/normalizer.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "tests/close.h"

namespace maglev {
namespace {

TEST(RunningNorm, statistics_of_batches_are_those_of_all_rows_together) {
  at::manual_seed(1);
  RunningNorm norm(3);
  std::vector<at::Tensor> seen;
  for (int64_t rows : {1, 7, 256, 40}) {
    seen.push_back(at::randn({rows, 3}) * at::tensor({1.f, 20.f, 0.1f}) +
                   at::tensor({0.f, 500.f, -3.f}));
    norm.absorb(seen.back());
  }
  auto all = at::cat(seen).to(at::kDouble);
  EXPECT_TRUE(close(norm.named_buffers()["mean"], all.mean(0).to(at::kFloat), 1e-6));
  EXPECT_TRUE(close(norm.named_buffers()["var"],
                    at::var(all, at::IntArrayRef{0}, /*unbiased=*/false).to(at::kFloat), 1e-5));
  auto standard = norm.forward(all.to(at::kFloat));
  EXPECT_TRUE(close(standard.mean(0), at::zeros({3}), 1e-4));
  EXPECT_TRUE(
      close(at::std(standard, at::IntArrayRef{0}, /*unbiased=*/false), at::ones({3}), 1e-4));
}

TEST(RunningNorm, passes_rows_through_until_it_has_seen_some_and_clips_far_ones) {
  RunningNorm norm(2, /*clip=*/5);
  EXPECT_TRUE(close(norm.forward(at::tensor({0.5f, -99.f}).view({1, 2})),
                    at::tensor({0.5f, -5.f}).view({1, 2}), 1e-6));
}

TEST(RunningNorm, a_large_mean_does_not_eat_a_small_deviation) {
  at::manual_seed(2);
  RunningNorm norm(1);
  for (int i = 0; i < 20; ++i) norm.absorb(at::randn({500, 1}) * 0.5 + 10000);
  EXPECT_NEAR(norm.named_buffers()["var"].item<double>(), 0.25, 0.01);
}

TEST(RewardNorm, divides_by_the_deviation_of_the_discounted_return) {
  RewardNorm norm(2, /*gamma=*/0.5);
  auto reward = at::tensor({1.f, 2.f, 3.f, -1.f, 0.f, 4.f}).view({3, 2});
  auto done = at::tensor({0, 0, 1, 0, 0, 0}).view({3, 2}).to(at::kByte);
  auto scaled = norm.absorb(reward, done, at::ones({3, 2}));
  // returns so far: column 0: 1, 3.5, then a new episode: 0; column 1: 2, 0, 4
  auto returns = at::tensor({1.f, 3.5f, 0.f, 2.f, 0.f, 4.f});
  EXPECT_TRUE(close(scaled, reward / at::std(returns, /*unbiased=*/false), 1e-6));
}

TEST(RewardNorm, returns_run_on_over_rollouts) {
  RewardNorm norm(1, /*gamma=*/1.0);
  auto none = at::zeros({2, 1}, at::kByte);
  norm.absorb(at::ones({2, 1}), none, at::ones({2, 1}));
  auto scaled = norm.absorb(at::ones({2, 1}), none, at::ones({2, 1}));
  EXPECT_TRUE(close(
      scaled, at::ones({2, 1}) / at::std(at::tensor({1.f, 2.f, 3.f, 4.f}), /*unbiased=*/false),
      1e-6));
}

TEST(RewardNorm, a_step_that_only_reset_is_not_a_return_of_0) {
  auto deviation = at::std(at::tensor({3.f, 5.f, 8.f}), /*unbiased=*/false);
  RewardNorm norm(1, /*gamma=*/1.0);
  auto reward = at::tensor({3.f, 2.f, 0.f, 8.f}).view({4, 1}),
       valid = at::tensor({1.f, 1.f, 0.f, 1.f}).view({4, 1});
  auto scaled = norm.absorb(reward, at::tensor({0, 1, 0, 0}).view({4, 1}).to(at::kByte), valid);
  EXPECT_TRUE(close(scaled, reward / deviation, 1e-6));
}

TEST(RunningNorm, rows_of_weight_0_are_left_out_even_when_all_are) {
  RunningNorm norm(1);
  norm.absorb(at::tensor({1.f, 900.f, 3.f}).view({3, 1}), at::tensor({1.f, 0.f, 1.f}));
  norm.absorb(at::tensor({900.f}).view({1, 1}), at::zeros({1}));
  EXPECT_TRUE(close(norm.forward(at::tensor({1.f, 3.f}).view({2, 1})),
                    at::tensor({-1.f, 1.f}).view({2, 1}), 1e-6));
}

}  // namespace
}  // namespace maglev
