#include "engine/train/report.h"

#include <chrono>
#include <limits>
#include <thread>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "base/core/clock.h"
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
