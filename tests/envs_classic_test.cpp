// What the comparison with Gymnasium (tests/python/test_gymnasium_parity.py) does not see: first
// states, the cart's full episode, and actions that are no numbers.

#include <cmath>

#include <gtest/gtest.h>

#include "base/env/host_envs.h"
#include "envs/pendulum/pendulum.h"

namespace maglev {
namespace {

TEST(ClassicEnvs, begin_evenly_over_gymnasium_s_ranges) {
  struct Range {
    const char* env;
    std::vector<float> low, high;
  };
  constexpr float pi = 3.14159265f;
  for (const Range& range :
       {Range{"cartpole", {-0.05f, -0.05f, -0.05f, -0.05f}, {0.05f, 0.05f, 0.05f, 0.05f}},
        Range{"acrobot", {-0.1f, -0.1f, -0.1f, -0.1f}, {0.1f, 0.1f, 0.1f, 0.1f}},
        Range{"pendulum", {-pi, -1.f}, {pi, 1.f}},
        Range{"mountain_car", {-0.6f, 0.f}, {-0.4f, 0.f}}}) {
    const int64_t count = 4000;
    HostEnvs envs(find_env(range.env), count, 1);
    envs.reset();
    for (size_t k = 0; k < range.low.size(); ++k) {
      float least = INFINITY, most = -INFINITY;
      double sum = 0;
      for (int64_t i = 0; i < count; ++i) {
        const float value = reinterpret_cast<const float*>(envs.slot(i) + kSlotHead)[k];
        least = std::min(least, value), most = std::max(most, value), sum += value;
      }
      const float low = range.low[k], high = range.high[k], width = high - low;
      EXPECT_GE(least, low) << range.env;
      EXPECT_LE(most, high) << range.env;
      EXPECT_LE(least, low + 0.01f * width) << range.env;
      EXPECT_GE(most, high - 0.01f * width) << range.env;
      EXPECT_NEAR(sum / double(count), 0.5 * (low + high), 0.02 * width) << range.env;
    }
  }
}

TEST(ClassicEnvs, a_balanced_cartpole_is_truncated_after_five_hundred_steps) {
  HostEnvs envs(find_env("cartpole"), 16, 1);
  envs.reset();
  for (int t = 0; t < 500; ++t) {
    for (int64_t i = 0; i < 16; ++i) {
      const float* o = envs.obs<float>(0, i);
      envs.actions_i32[size_t(i)] = 0.1f * o[0] + 0.2f * o[1] + 3.f * o[2] + o[3] > 0;
    }
    envs.step();
    for (size_t i = 0; i < 16; ++i) {
      ASSERT_FALSE(envs.terminated[i]) << "step " << t;
      ASSERT_EQ(bool(envs.truncated[i]), t == 499);
    }
  }
  EXPECT_EQ(envs.take_totals().return_min, 500.f);
}

TEST(ClassicEnvs, a_pendulum_s_angle_stays_within_a_turn) {
  HostEnvs envs(find_env("pendulum"), 4, 1, {{"max_steps", "1000000"}, {"g", "0"}});
  envs.reset();
  for (int t = 0; t < 5000; ++t) {
    // one torque for ever: it spins at full speed
    std::fill(envs.actions_f32.begin(), envs.actions_f32.end(), 2.f);
    envs.step();
    for (int64_t i = 0; i < 4; ++i)
      ASSERT_LE(std::abs(envs.state<Pendulum>(i).theta), 3.1416f) << "step " << t;
  }
  EXPECT_EQ(envs.state<Pendulum>(0).theta_dot, 8.f);
}

TEST(ClassicEnvs, a_pendulum_shows_an_action_that_is_not_a_number) {
  HostEnvs envs(find_env("pendulum"), 1, 1);
  envs.reset();
  envs.actions_f32[0] = NAN;
  envs.step();
  EXPECT_TRUE(std::isnan(envs.reward[0]));
  EXPECT_TRUE(std::isnan(envs.obs<float>(0, 0)[2]));
}

}  // namespace
}  // namespace maglev
