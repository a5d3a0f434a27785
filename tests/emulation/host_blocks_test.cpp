// Environments that the host steps beside a device, in two blocks: one steps while the device acts
// for the other.

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "base/env/batch_cpu.h"
#include "engine/data/rollout.h"
#include "engine/device/device.h"
#include "engine/run/checkpoint.h"
#include "engine/train/trainer.h"
#include "tests/envs/hosted/hosted.h"
#include "tests/errors.h"
#include "tests/small_plans.h"

namespace maglev {
namespace {

const at::Device kGpu("cuda:0");

using Settings = std::vector<std::string>;

// the algorithm's own small run on five environments
struct SmallRun {
  SmallRun(const char* algo, const char* env, const std::vector<Settings>& settings)
      : experiment(algo, env) {
    experiment.table().override_with(experiment.algo().small.settings);
    for (const Settings& some : settings) experiment.table().override_with(some);
    experiment.table().override_with("env.count=5");
    trainer.emplace(experiment, Placement{.device = kGpu, .threads = 2});
    trainer->warm_up();
  }
  Experiment experiment;
  std::optional<Trainer> trainer;
};

std::string run_of(const char* env, const Settings& settings) {
  SmallRun run("ppo", env, {{"ppo.minibatch=40"}, settings});
  for (int i = 0; i < 4; ++i) run.trainer->iterate();
  return state_hash([&](StateVisitor& v) { run.trainer->visit_state(v); });
}

TEST(EmulatedHostBlocks, collect_what_the_whole_collects) {
  for (const char* env : {"hosted", "ahead"})
    for (const char* graph : {"train.graph=off", "train.graph=on"})
      EXPECT_EQ(run_of(env, {graph, "train.collect=blocks"}), run_of(env, {graph}))
          << env << " " << graph;
  EXPECT_EQ(run_of("hosted", {}), run_of("ahead", {}));
}

// a library's products may round a row otherwise among fewer: to the bit where actions are drawn,
// close where they are planned or dreamt of
void expect_same_actions(const char* algo, const std::vector<Settings>& settings, int iterations) {
  SmallRun whole(algo, "hosted", settings);
  std::vector<Settings> in_blocks = settings;
  in_blocks.push_back({"train.collect=blocks"});
  SmallRun blocks(algo, "hosted", in_blocks);
  for (int i = 0; i < iterations; ++i) {
    blocks.trainer->iterate(), whole.trainer->iterate();
    StepWindow &ours = blocks.trainer->store().window(), &theirs = whole.trainer->store().window();
    for (int64_t t = 0; t < ours.shape().T; ++t)
      EXPECT_TRUE(at::allclose(ours.step(t).action.cpu(), theirs.step(t).action.cpu(), 1e-3, 1e-3))
          << algo << " " << i << " " << t;
  }
}

TEST(EmulatedHostBlocks, act_as_the_whole_does) {
  expect_same_actions("tdmpc2", {kSmallPlans, kShortEpisodes, {"tdmpc2.seed_steps=10"}}, 5);
  expect_same_actions("dreamer", {}, 3);
}

// its steps wait for a gate
struct Gated : Hosted {
  static inline std::atomic<bool> open = true;
  static inline std::atomic<int> steps = 0;
  static void step(const Params& p, State& s, const Actions& action, Rng& rng, StepOut& out) {
    while (!open) std::this_thread::yield();
    ++steps;
    Hosted::step(p, s, action, rng, out);
  }
};

struct Stepped {
  explicit Stepped(const EnvEntry& entry)
      : envs(entry, &params, 5, 7, kGpu, pool, 0, 0, /*host_blocks=*/2),
        rows(envs.spec(), {.T = 1, .rows = 5, .block_rows = envs.block()}, {}, kGpu) {
    envs.reset(rows.first_io());
  }
  Hosted::Params params;
  ThreadPool pool{2};
  VecEnv envs;
  Rollout rows;
};

TEST(EmulatedHostBlocks, step_while_another_is_acted_for) {
  const EnvEntry entry = make_env_entry<Gated>("gated");
  Stepped stepped(entry);
  ASSERT_EQ(stepped.envs.block(), 3);
  const StepIo& io = stepped.rows.io(0);
  Gated::open = false, Gated::steps = 0;
  stepped.envs.begin_step(io, 0, 3);
  // the device is given work and waited for
  stepped.rows.step(0).action.narrow(0, 3, 2).fill_(1);
  wait_for_stream();
  EXPECT_EQ(Gated::steps, 0);
  Gated::open = true;
  stepped.envs.begin_step(io, 3, 5);
  EXPECT_GE(Gated::steps, 3) << "blocks that begin are stepped one after another";
  stepped.envs.step(io, 0, 3);
  stepped.envs.step(io, 3, 5);
  EXPECT_EQ(Gated::steps, 5);
}

// what it throws is told by whoever waits for it, and the next step may be taken
struct Failing : Hosted {
  static inline std::atomic<bool> fails = false;
  static void step(const Params& p, State& s, const Actions& action, Rng& rng, StepOut& out) {
    if (fails) throw Error("[env] it fails");
    Hosted::step(p, s, action, rng, out);
  }
};

TEST(EmulatedHostBlocks, that_fail_are_told_of_by_who_waits) {
  const EnvEntry entry = make_env_entry<Failing>("failing");
  Stepped stepped(entry);
  const StepIo& io = stepped.rows.io(0);
  Failing::fails = true;
  stepped.envs.begin_step(io, 0, 3);
  EXPECT_EQ(error_of([&] { stepped.envs.step(io, 0, 3); }), "[env] it fails");
  stepped.envs.begin_step(io, 3, 5);
  EXPECT_EQ(error_of([&] { stepped.envs.step(io, 3, 5); }), "[env] it fails");
}

}  // namespace
}  // namespace maglev
