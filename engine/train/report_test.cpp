#include "engine/train/report.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "base/core/clock.h"
#include "base/env/env_params.h"
#include "engine/data/rollout.h"
#include "tests/errors.h"

namespace maglev {
namespace {

// what a GPU does: it remembers, and is asked
TEST(Report, a_number_that_is_not_finite_since_the_last_flush_is_told_before_anything_is_saved) {
  const EnvSpec spec{.observations = {{.name = "vector", .shape = {2}}}, .action = {.heads = {2}}};
  Rollout rollout(spec, {.T = 3, .rows = 4, .block_rows = 4}, {}, at::kCPU);
  FiniteCheck finite("cartpole", spec, 1, /*first_env=*/0, rollout.window(), at::kCPU,
                     /*flagged=*/true);
  Report report(at::kCPU);
  report.watch({.finite = &finite,
                .not_finite = [](int64_t step) { throw Error("at " + std::to_string(step)); }});
  finite.look(rollout.batch());
  EXPECT_NO_THROW(report.expect_finite(12));
  // an observation of the last step, which no flush has seen
  at::Tensor obs = rollout.batch().obs[0];
  obs[3][2][1] = std::numeric_limits<float>::quiet_NaN();
  finite.look(rollout.batch());
  EXPECT_EQ(error_of([&] { report.expect_finite(24); }), "at 24");
  // it stays known when the rollout has gone on
  obs[3][2][1] = 0;
  finite.look(rollout.batch());
  EXPECT_EQ(error_of([&] { report.expect_finite(36); }), "at 36");
}

TEST(Report, a_mean_return_is_of_as_many_episodes_as_there_are_environments) {
  constexpr int64_t N = 400;
  ThreadPool pool(1);
  const EnvEntry& env = find_env("cartpole");
  const EnvParams params(env, {});
  VecEnv envs(env, params.get(), N, /*seed=*/1, at::kCPU, pool);
  Rollout rollout(envs.spec(), {.T = 1, .rows = N, .block_rows = N}, {}, at::kCPU);
  FiniteCheck finite("cartpole", envs.spec(), 1, /*first_env=*/0, rollout.window(), at::kCPU,
                     /*flagged=*/false);
  Report report(at::kCPU);
  report.watch({.envs = &envs, .finite = &finite});
  EXPECT_EQ(report.settled_episodes(), N);
  // pushed to one side all fall within ten steps or so, those that leaned there first
  StepIo first = rollout.first_io(), io = rollout.io(0);
  envs.reset(first);
  rollout.batch().action.zero_();
  bool between = false;
  for (int64_t t = 0; t < 15; ++t) {
    envs.step(io);
    report.begin(t * N);
    report.settle();
    if (report.episodes() >= N) break;
    between |= report.episodes() >= kSettledEpisodes;
    EXPECT_TRUE(std::isnan(report.settled_return_mean()));
  }
  EXPECT_TRUE(between);
  EXPECT_GT(report.settled_return_mean(), 8);
}

TEST(Report, a_warm_up_is_no_part_of_the_runs_seconds) {
  Report report(at::kCPU);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double ends_s = steady_s();
  report.restart_clocks();
  const double seconds = report.seconds();
  EXPECT_LE(seconds, steady_s() - ends_s);
}

}  // namespace
}  // namespace maglev
