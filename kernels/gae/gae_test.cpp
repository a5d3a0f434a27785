#include "kernels/gae/gae.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "kernels/gae/gae_op.h"
#include "tests/close.h"

namespace maglev {
namespace {

at::Tensor column(std::vector<float> values) { return at::tensor(values).unsqueeze(1); }
at::Tensor flags(std::vector<int> values) { return at::tensor(values).to(at::kByte).unsqueeze(1); }

// steps 0, 1 of an episode that is truncated; row 2 is its final observation, its step only resets;
// step 3 terminates
TEST(Gae, equals_a_computation_by_hand) {
  auto reward = column({1, 3, 0, 5}), value = column({2, 4, 6, 8, 10});
  auto advantage = at::zeros({4, 1});
  gae_(advantage, reward, value, flags({0, 0, 0, 1}), flags({1, 0, 0, 1, 0}), 0.5, 0.5);
  // 3: 5 - 8;  2: only a reset;  1: 3 + 0.5 * 6 - 4, bootstrapped;  0: 1 + 0.5 * 4 - 2 + 0.25 * 2
  EXPECT_TRUE(close(advantage, column({1.5, 2, 0, -3}), 0));
}

TEST(Gae, the_last_row_bootstraps_an_episode_that_goes_on) {
  auto advantage = at::zeros({2, 1});
  gae_(advantage, column({1, 1}), column({0, 0, 8}), flags({0, 0}), flags({1, 0, 0}), 0.5, 1.0);
  EXPECT_TRUE(close(advantage, column({3.5, 5}), 0));
}

// what comes behind an episode's end must not leak into it
TEST(Gae, nothing_behind_an_end_changes_what_is_before_it) {
  auto reward = column({1, 2, 0, 4, 5}), value = column({1, 2, 3, 4, 5, 6});
  auto truncated_at_1 = flags({1, 0, 0, 1, 0, 0}), none = flags({0, 0, 0, 0, 0});
  auto before = at::zeros({5, 1}), after = at::zeros({5, 1});
  gae_(before, reward, value, none, truncated_at_1, 0.9, 0.8);
  reward.narrow(0, 2, 3).add_(100);
  value.narrow(0, 3, 3).add_(100);
  gae_(after, reward, value, none, truncated_at_1, 0.9, 0.8);
  EXPECT_TRUE(close(after.narrow(0, 0, 3), before.narrow(0, 0, 3), 0));
  EXPECT_FALSE(at::equal(after.narrow(0, 3, 2), before.narrow(0, 3, 2)));
}

// the CUDA kernel walks columns, the CPU one rows; both are here, so both can be compared without a
// device
TEST(Gae, walking_columns_and_rows_agree_to_the_bit) {
  at::manual_seed(3);
  const int64_t T = 37, N = 11;
  auto reward = at::randn({T, N}), value = at::randn({T + 1, N});
  auto terminated = (at::rand({T, N}) < 0.1).to(at::kByte),
       first = (at::rand({T + 1, N}) < 0.1).to(at::kByte);
  auto rows = at::zeros({T, N}), columns = at::zeros({T, N});
  gae_(rows, reward, value, terminated, first, 0.99, 0.95);
  GaeArgs args{.reward = reward.data_ptr<float>(),
               .value = value.data_ptr<float>(),
               .terminated = terminated.data_ptr<uint8_t>(),
               .next_is_first = first.data_ptr<uint8_t>() + N,
               .advantage = columns.data_ptr<float>(),
               .T = T,
               .N = N,
               .gamma = 0.99f,
               .lambda = 0.95f};
  for (int64_t n = 0; n < N; ++n) gae_column(args, n);
  EXPECT_TRUE(close(rows, columns, 0));
}

TEST(Gae, values_without_a_bootstrap_row_are_refused) {
  auto advantage = at::zeros({4, 2});
  auto none = at::zeros({4, 2}, at::kByte), first = at::zeros({5, 2}, at::kByte);
  EXPECT_THROW(gae_(advantage, at::zeros({4, 2}), at::zeros({4, 2}), none, first, 0.9, 0.9), Error);
}

}  // namespace
}  // namespace maglev
