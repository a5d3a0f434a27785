#include "engine/train/time_plan.h"

#include <array>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace maglev {
namespace {

const Placement kCpu{.device = at::kCPU, .threads = 2};
// nothing but arithmetic takes time
constexpr MachineRates kArithmetic{.gflops = 100, .gelements = 1e12, .gigabytes_s = 1e12};

std::unique_ptr<Experiment> timed_experiment(const char* algo, const char* env,
                                             const std::vector<std::string>& settings) {
  auto experiment = std::make_unique<Experiment>(algo, env);
  for (const auto& setting : settings) experiment->table().override_with(setting);
  return experiment;
}

PlannedStage stage_of(const TimePlan& plan, const std::string& name) {
  for (const PlannedStage& stage : plan.stages)
    if (stage.name == name) return stage;
  ADD_FAILURE() << "no stage " << name;
  return {};
}

TEST(TimePlan, counts_the_operations_of_ppo) {
  const auto experiment =
      timed_experiment("ppo", "cartpole", {"env.count=64", "ppo.rollout=32", "ppo.epochs=4"});
  const TimePlan plan = plan_time(*experiment, kCpu, kArithmetic);
  EXPECT_EQ(plan.steps, 64 * 32);
  double flops = 0;
  for (const PlannedStage& stage : plan.stages) flops += stage.flops;
  // two networks of 4 x 64 x 64 and their heads: forward once, forward and back four times; and
  // biases
  const double macs = 4 * 64 + 64 * 64 + 64 * 2 + 4 * 64 + 64 * 64 + 64;
  const double layers = 2 * macs * 13 * double(plan.steps);
  EXPECT_GT(flops, layers);
  EXPECT_LT(flops, 1.05 * layers);
}

TEST(TimePlan, counts_the_operations_of_tdmpc2_as_its_floor_does) {
  // bench/tdmpc2_floor.py: hockey's 18 numbers and 4 actions, official sizes
  const auto experiment = timed_experiment(
      "tdmpc2", "hockey", {"env.count=2", "tdmpc2.episodic=off", "tdmpc2.update_every=8"});
  const TimePlan plan = plan_time(*experiment, kCpu, kArithmetic);
  EXPECT_EQ(plan.steps, 8);
  EXPECT_DOUBLE_EQ(stage_of(plan, "planner").flops, 8 * 31559517184.);
  EXPECT_DOUBLE_EQ(stage_of(plan, "update").flops, 8 * 30601117696.);
}

TEST(TimePlan, counts_the_operations_of_dreamer_as_its_floor_does) {
  // bench/dreamer_floor.py: 3 numbers and 1 action, size 1m, 16 sequences of 64
  const auto experiment = timed_experiment(
      "dreamer", "pendulum", {"env.count=4", "dreamer.size=1m", "dreamer.train_ratio=512"});
  const TimePlan plan = plan_time(*experiment, kCpu, kArithmetic);
  // half an update a step
  EXPECT_DOUBLE_EQ(stage_of(plan, "update").flops, 0.5 * double(plan.steps) * 26457800704.);
}

TEST(TimePlan, names_what_a_stage_waits_for) {
  const auto experiment = timed_experiment("ppo", "cartpole", {"env.count=64"});
  const auto limit = [&](const MachineRates& rates, const char* stage) {
    return stage_of(plan_time(*experiment, kCpu, rates), stage).limit;
  };
  MachineRates rates = kArithmetic;
  EXPECT_EQ(limit(rates, "update"), StageLimit::arithmetic);
  rates.gigabytes_s = 1e-6;
  EXPECT_EQ(limit(rates, "advantages"), StageLimit::memory);
  rates = kArithmetic, rates.launch_s = 1;
  EXPECT_EQ(limit(rates, "act"), StageLimit::launches);
  EXPECT_EQ(limit(rates, "env_step"), StageLimit::environment);
}

TEST(TimePlan, is_as_long_as_its_stages_and_as_slow_as_its_machine) {
  const auto experiment = timed_experiment("ppo", "pendulum", {"env.count=64"});
  MachineRates rates{
      .gflops = 100, .gelements = 1, .gigabytes_s = 10, .launch_s = 1e-6, .environment_s = 1e-8};
  const TimePlan fast = plan_time(*experiment, kCpu, rates);
  double sum = 0;
  for (const PlannedStage& stage : fast.stages) sum += stage.seconds;
  EXPECT_DOUBLE_EQ(fast.iteration_s, sum);
  EXPECT_DOUBLE_EQ(stage_of(fast, "env_step").seconds, double(fast.steps) * 1e-8);
  rates = {
      .gflops = 50, .gelements = 0.5, .gigabytes_s = 5, .launch_s = 2e-6, .environment_s = 2e-8};
  EXPECT_NEAR(plan_time(*experiment, kCpu, rates).iteration_s, 2 * sum, 1e-9 * sum);
}

TEST(TimePlan, beside_a_device_the_host_steps_what_only_it_can) {
  const Placement device{.device = at::Device(at::kCUDA, 0), .threads = 2};
  MachineRates rates{.gflops = 1e3,
                     .gelements = 1e3,
                     .gigabytes_s = 1e3,
                     .bus_gigabytes_s = 10,
                     .launch_s = 1e-6,
                     .environment_s = 1e-3};
  const auto step = [&](const char* env) {
    const auto experiment = timed_experiment("ppo", env, {"env.count=64", "ppo.rollout=32"});
    return stage_of(plan_time(*experiment, device, rates), "env_step");
  };
  const PlannedStage ours = step("cartpole"), hosted = step("hosted");
  EXPECT_FALSE(ours.host);
  EXPECT_LT(ours.seconds, 1e-3);
  EXPECT_TRUE(hosted.host);
  EXPECT_EQ(hosted.limit, StageLimit::environment);
  // rows go over the bus besides, a step at a time
  const double stepped = 64 * 32 * 1e-3;
  EXPECT_GT(hosted.seconds, stepped);
  EXPECT_LT(hosted.seconds, 1.01 * stepped);
  rates.environment_s = 0, rates.bus_gigabytes_s = 1e-6;
  const PlannedStage copied = step("hosted");
  EXPECT_EQ(copied.limit, StageLimit::memory);
  EXPECT_NEAR(copied.seconds, copied.bytes / 1e3, 0.01 * copied.seconds);
}

TEST(TimePlan, words_take_as_long_as_there_are_different_ones) {
  const auto flops = [](const std::vector<std::string>& settings, const Placement& placement) {
    const auto experiment = timed_experiment("ppo", "kg", settings);
    return stage_of(plan_time(*experiment, placement, kArithmetic), "update").flops;
  };
  const Placement device{.device = at::Device(at::kCUDA, 0), .threads = 2};
  const double every = flops({"ppo.network.proof.packed=false"}, kCpu);
  EXPECT_LT(flops({}, kCpu), 0.5 * every);
  EXPECT_GT(flops({}, kCpu), 0.001 * every);
  // a device takes every slot
  EXPECT_EQ(flops({}, device), every);
  // and more slots are no more work, but on a device
  const std::vector<std::string> wide{"env.successors=256"};
  EXPECT_NEAR(flops(wide, kCpu), flops({}, kCpu), 0.3 * flops({}, kCpu));
  EXPECT_GT(flops(wide, device), 1.5 * every);
}

TEST(TimePlan, one_block_of_rows_is_no_faster_on_two_threads) {
  const Placement one{.device = at::kCPU, .threads = 1};
  const auto time = [&](const char* count, const Placement& placement, double gflops) {
    const auto experiment = timed_experiment("ppo", "cartpole", {count});
    MachineRates rates = kArithmetic;
    rates.gflops = gflops;
    return stage_of(plan_time(*experiment, placement, rates), "act").seconds;
  };
  EXPECT_NEAR(time("env.count=8", kCpu, 200) / time("env.count=8", one, 100), 1, 1e-3);
  EXPECT_NEAR(time("env.count=1024", kCpu, 200) / time("env.count=1024", one, 100), 0.5, 1e-3);
}

TEST(TimePlan, what_others_wrote_takes_its_time_on_several_threads) {
  const Placement one{.device = at::kCPU, .threads = 1};
  // rates of small blocks, of large ones and of memory
  using Rates = std::array<double, 3>;
  const auto update = [&](const Placement& placement, const char* hidden, const Rates& of) {
    const auto experiment = timed_experiment("ppo", "cartpole", {hidden});
    MachineRates rates = kArithmetic;
    rates.shared_gigabytes_s = of[0], rates.shared_large_gigabytes_s = of[1];
    rates.gigabytes_s = of[2];
    return stage_of(plan_time(*experiment, placement, rates), "update").seconds;
  };
  // weights of 37 KB lie in a first cache, those of 306 KB in a second one, those of 540 KB in
  // neither
  const std::array kHidden{"ppo.network.hidden=[64,64]", "ppo.network.hidden=[192,192]",
                           "ppo.network.hidden=[256,256]"};
  constexpr double kAtOnce = 1e12;
  for (size_t kind = 0; kind < kHidden.size(); ++kind) {
    EXPECT_EQ(update(one, kHidden[kind], {1, 1, kAtOnce}),
              update(one, kHidden[kind], {0, 0, kAtOnce}));
    const double none = update(kCpu, kHidden[kind], {0, 0, kAtOnce});
    Rates two{kAtOnce, kAtOnce, kAtOnce}, half = two;
    two[kind] = 2, half[kind] = 1;
    const double fast = update(kCpu, kHidden[kind], two) - none;
    const double slow = update(kCpu, kHidden[kind], half) - none;
    EXPECT_GT(fast, 0);
    EXPECT_NEAR(slow / fast, 2, 1e-6);
  }
}

TEST(TimePlan, layers_of_a_library_are_tried_out_where_that_may_be) {
  const auto experiment = timed_experiment("ppo", "minatar_breakout", {"ppo.network.kind=cnn"});
  const Placement one{.device = at::kCPU, .threads = 1};
  // a machine that is said to be slow beyond measure
  MachineRates rates{.gflops = 1e-9, .gelements = 1e-9, .gigabytes_s = 1e12};
  const auto update = [&] { return stage_of(plan_time(*experiment, one, rates), "update"); };
  const PlannedStage told = update();
  rates.trials = true;
  const PlannedStage tried = update();
  EXPECT_TRUE(tried.tried && !told.tried);
  EXPECT_EQ(tried.flops, told.flops);
  EXPECT_GT(tried.seconds, 0);
  EXPECT_LT(tried.seconds, told.seconds / 100);
}

TEST(TimePlan, a_dataset_has_no_steps_to_predict) {
  const auto experiment = timed_experiment("tdmpc2", "pendulum", {"train.dataset=somewhere"});
  EXPECT_TRUE(plan_time(*experiment, kCpu, kArithmetic).stages.empty());
}

}  // namespace
}  // namespace maglev
