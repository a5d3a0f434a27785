#include "kernels/adam/adam.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/core/thread_pool.h"
#include "base/simd/targets.h"
#include "tests/adam_optimiser.h"

namespace maglev {
namespace {

TEST(Adam, the_first_step_moves_by_the_learning_rate_against_the_sign) {
  ThreadPool pool(1);
  AdamOptimiser adam(3, 1, {{0, 3}});
  adam.grad = {0.1f, -0.2f, 0.05f};
  auto before = adam.data;
  adam.update(pool);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(adam.data[i], before[i] - std::copysign(0.01f, adam.grad[i]), 1e-7);
  EXPECT_FLOAT_EQ(adam.step.norm, std::sqrt(0.01f + 0.04f + 0.0025f));
}

TEST(Adam, lanes_are_added_in_order) {
  ThreadPool pool(1);
  AdamOptimiser adam(1, 3, {{0, 1}});
  adam.args.max_grad_norm = 0;
  adam.grad = {1e8f, 1.f, -1e8f};  // (1e8 + 1) - 1e8 = 0 in f32, any other order gives 1
  adam.update(pool);
  EXPECT_EQ(adam.grad[0], 0.f);
}

TEST(Adam, each_group_is_clipped_by_its_own_norm) {
  ThreadPool pool(1);
  const int64_t P = 40000;
  AdamOptimiser adam(P, 1, {{0, 17001}, {17001, P - 17001}});
  adam.set_gradient(0);
  adam.grad[17000] = 3.f, adam.grad[17001] = 0.25f, adam.grad[17002] = -0.25f;
  adam.update(pool);
  EXPECT_NEAR(adam.grad[17000], 0.5, 1e-6);
  EXPECT_EQ(adam.grad[17001], 0.25f);
  EXPECT_FLOAT_EQ(adam.step.norm, std::sqrt(9.f + 0.125f));
}

TEST(Adam, groups_clipped_together_share_a_norm_and_keep_their_learning_rates) {
  ThreadPool pool(1);
  AdamOptimiser adam(4, 1, {{0, 1}, {1, 3}});
  adam.args.clip_together = true;
  adam.rate = {0.3f, 1.f};
  adam.grad = {3.f, 4.f, 0.f, -4.f};
  const auto before = adam.data;
  adam.update(pool);
  const float factor = 0.5f / std::sqrt(41.f);
  EXPECT_NEAR(adam.grad[0], 3 * factor, 1e-6);
  EXPECT_NEAR(adam.grad[1], 4 * factor, 1e-6);
  EXPECT_NEAR(before[0] - adam.data[0], 0.003, 1e-6);
  EXPECT_NEAR(before[1] - adam.data[1], 0.01, 1e-6);
  EXPECT_NEAR(before[3] - adam.data[3], -0.01, 1e-6);
}

// gradients that ended, as those of units that are dead: their moments fall for thousands of steps
TEST(Adam, what_is_too_small_to_be_normal_is_zero_within_and_nowhere_else) {
  ThreadPool pool(1);
  AdamOptimiser adam(20, 1, {{0, 20}});
  adam.set_gradient(0);
  std::fill(adam.first.begin(), adam.first.end(), 1.2e-38f);
  std::fill(adam.second.begin(), adam.second.end(), 1e-40f);
  adam.grad[3] = 1e-21f;  // its square is not normal
  const auto before = adam.data;
  adam.update(pool);
  for (size_t i = 0; i < 20; ++i) {
    // nine tenths of it are too small; in two roundings a tenth of it already is, and all of it
    // stays
    if (i != 3) {
      EXPECT_EQ(adam.first[i], simd_has_fma() ? 0.f : 1.2e-38f);
    }
    EXPECT_EQ(adam.second[i], 0.f);
    EXPECT_NEAR(adam.data[i], before[i], 1e-12);
  }
  volatile float small = 1e-38f;
  EXPECT_GT(small * 0.5f, 0.f) << "the thread was left without them";
}

TEST(Adam, results_do_not_depend_on_the_number_of_threads) {
  const int64_t P = 70001;
  AdamOptimiser one(P, 3, {{0, 100}, {100, P - 100}}), four(P, 3, {{0, 100}, {100, P - 100}});
  ThreadPool single(1), several(4);
  for (int step = 0; step < 3; ++step) {
    one.set_gradient(0.1f * float(step)), four.set_gradient(0.1f * float(step));
    one.update(single), four.update(several);
  }
  EXPECT_EQ(one.data, four.data);
  EXPECT_EQ(one.second, four.second);
  EXPECT_EQ(one.step.norm, four.step.norm);
}

TEST(Adam, a_step_that_is_left_out_changes_nothing_and_only_bad_gradients_are_counted) {
  ThreadPool pool(1);
  for (float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1.f}) {
    AdamOptimiser adam(50, 2, {{0, 50}});
    adam.set_gradient(1);
    adam.update(pool);
    const auto data = adam.data, first = adam.first;
    adam.set_gradient(1);
    adam.grad[60] = bad, adam.skip = bad == 1.f ? 1.f : 0.f;
    adam.update(pool);
    EXPECT_EQ(adam.data, data);
    EXPECT_EQ(adam.first, first);
    EXPECT_EQ(adam.steps, 1.f);
    EXPECT_EQ(adam.nonfinite, bad == 1.f ? 0.f : 1.f);
  }
}

}  // namespace
}  // namespace maglev
