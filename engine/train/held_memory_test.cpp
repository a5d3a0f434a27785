#include "engine/train/held_memory.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/core/file.h"
#include "base/core/words.h"
#include "engine/host/cpu_cache.h"
#include "engine/train/training_run.h"
#include "tests/errors.h"
#include "tests/folder.h"

namespace maglev {
namespace {

struct SmallPpo {
  Experiment experiment{"ppo", "cartpole"};
  SmallPpo() {
    for (const char* setting :
         {"train.steps=512", "env.count=8", "ppo.rollout=16", "ppo.minibatch=128", "ppo.epochs=1",
          "ppo.network.hidden=[8]", "threads=1", "device=cpu"})
      experiment.table().override_with(setting);
  }
};

TEST(HeldMemory, is_of_environments_and_columns_what_was_planned) {
  claim_threads();
  SmallPpo run;
  const Placement placement{.device = at::kCPU, .threads = 1};
  const MemoryPlan plan = plan_memory(run.experiment, placement);
  Trainer trainer(run.experiment, placement);
  trainer.iterate();
  const HeldMemory held = held_memory(trainer, cpu_cache_bytes(), 1 << 20);
  EXPECT_EQ(held.environments, plan.environments);
  // the plan counts T + 1 times of every column
  EXPECT_LE(held.collected, plan.collected);
  EXPECT_GT(double(held.collected), 0.9 * double(plan.collected));
  // parameters and two moments of each: 4 -> 8 -> 8 -> 2 and 1, and their biases, at least once
  EXPECT_GT(held.state, 3 * 4 * (4 * 8 + 8 * 3));
  EXPECT_LT(held.state, plan.learning());
  EXPECT_EQ(held.rest(), held.tensors - held.environments - held.collected - held.state);
}

TEST(HeldMemory, of_a_replay_is_the_rings_own) {
  claim_threads();
  Experiment experiment("tdmpc2", "pendulum");
  for (const char* setting :
       {"train.steps=2000", "env.count=4", "tdmpc2.enc_dim=16", "tdmpc2.mlp_dim=16",
        "tdmpc2.latent_dim=16", "tdmpc2.capacity=1000", "threads=1", "device=cpu"})
    experiment.table().override_with(setting);
  const Placement placement{.device = at::kCPU, .threads = 1};
  Trainer trainer(experiment, placement);
  const HeldMemory held = held_memory(trainer, 0, 0);
  EXPECT_EQ(held.collected, plan_memory(experiment, placement).collected);
  EXPECT_GT(held.collected, 1000 * 4);
  EXPECT_EQ(held.rest(), 0);
}

TEST(HeldMemory, is_kept_beside_the_plan_once_a_run_has_learned) {
  claim_threads();
  SmallPpo run;
  const std::string out = test_folder() + "/measured";
  train_new(run.experiment, {.out = out, .sinks = {"jsonl"}});
  const auto json = nlohmann::json::parse(read_file(out + "/memory.json", 1 << 20));
  const auto& measured = json["measured"];
  EXPECT_LE(measured["tensors"]["planned"], json["total"]);
  EXPECT_EQ(measured["environments"]["measured"], measured["environments"]["planned"]);
  EXPECT_GT(measured["learning"]["measured"], measured["state"]);
  EXPECT_GT(measured["process"], 0);
  EXPECT_TRUE(contains(read_file(out + "/log.txt", 1 << 20), "memory: "));
}

// settings that take less, one after another
std::string savings_of(const Experiment& experiment, const Placement& placement, bool pinned) {
  std::vector<std::string> settings;
  for (const Saving& one : savings(experiment, placement, pinned)) settings.push_back(one.setting);
  return joined(settings);
}

TEST(HeldMemory, takes_less_by_settings_that_the_run_has_and_that_are_not_so_already) {
  const Placement gpu{.device = at::Device("cuda:0"), .threads = 1, .device_bytes = 1LL << 40};
  const std::string rollout = savings_of(SmallPpo().experiment, gpu, /*pinned=*/false);
  EXPECT_TRUE(contains(rollout, "train.rollout_memory=pinned, env.count")) << rollout;
  EXPECT_FALSE(contains(rollout, "train.replay")) << rollout;
  const std::string pinned = savings_of(SmallPpo().experiment, gpu, /*pinned=*/true);
  EXPECT_FALSE(contains(pinned, "=pinned")) << pinned;
  const Experiment learner("tdmpc2", "pendulum");
  const std::string replay = savings_of(learner, gpu, /*pinned=*/false);
  EXPECT_TRUE(contains(replay, "train.replay_memory=pinned, train.replay_capacity")) << replay;
  EXPECT_FALSE(contains(replay, "train.rollout")) << replay;
}

TEST(HeldMemory, a_run_that_is_out_of_it_says_what_holds_how_much_and_what_takes_less) {
  SmallPpo run;
  Hooks hooks;
  hooks.iteration_start = [](int64_t step) {
    TORCH_CHECK_WITH(OutOfMemoryError, step < 256, "Tried to allocate 2.00 GiB. ",
                     "GPU 0 has 1.00 GiB free. If reserved but unallocated memory is large ..");
  };
  const std::string out = test_folder() + "/refused";
  const std::string told = error_of(
      [&] { train_new(run.experiment, {.out = out, .sinks = {"jsonl"}, .hooks = hooks}); });
  EXPECT_TRUE(
      contains(told,
               "[memory] ppo asked for more than cpu has: Tried to allocate 2.00 GiB. GPU 0 "
               "has 1.00 GiB free.; tensors held "))
      << told;
  EXPECT_TRUE(contains(told, "rollout or replay ")) << told;
  EXPECT_TRUE(contains(told, "make smaller what takes most (")) << told;
  EXPECT_TRUE(contains(told, "ppo.rollout, ppo.minibatch, ") && contains(told, "env.count)"))
      << told;
  // it has no replay, and its memory is the host's
  EXPECT_FALSE(contains(told, "train.re") || contains(told, "train.rollout")) << told;
  EXPECT_TRUE(contains(read_file(out + "/run.json", 1 << 20), "asked for more than cpu has"));
}

}  // namespace
}  // namespace maglev
