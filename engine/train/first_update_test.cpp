#include "engine/train/first_update.h"

#include <gtest/gtest.h>

#include "tests/errors.h"

namespace maglev {
namespace {

const Placement kOneThread{.device = at::kCPU, .threads = 1};

using Note = std::string (*)(const Experiment&, const Placement&);

std::string said_of(Note note, const char* algo, const char* env,
                    const std::vector<std::string>& settings) {
  Experiment experiment(algo, env);
  for (const std::string& setting : settings) experiment.table().override_with(setting);
  return note(experiment, kOneThread);
}

TEST(FirstUpdate, waits_for_what_is_due_and_for_a_sequence_of_each_row) {
  ReplayPlan plan{.length = 64, .first_steps = 100, .updates_per_step = 0.5};
  EXPECT_EQ(first_update(plan, 1, 1, false), 102);
  EXPECT_EQ(first_update(plan, 1, 8, false), 512) << "64 steps of each";
  EXPECT_EQ(first_update(plan, 1, 8, true), 520) << "an iteration later";
  plan.update_every = 1000;
  EXPECT_EQ(first_update(plan, 1, 8, false), 1104) << "counted every 1,000, in iterations of 8";
  plan.first_updates = 10;
  EXPECT_EQ(first_update(plan, 1, 1, false), 100);
  plan.first_updates = 0, plan.updates_per_step = 0;
  EXPECT_EQ(first_update(plan, 1, 1, false), -1);
}

TEST(WhyNoUpdate, names_the_setting_and_a_value_before_the_run_begins) {
  const auto why = [](std::vector<std::string> settings) {
    settings.insert(settings.begin(),
                    {"train.steps=3000", "env.count=64", "dreamer.batch=4", "dreamer.length=64",
                     "dreamer.train_ratio=64", "dreamer.update_every=64"});
    return said_of(why_no_update, "dreamer", "cartpole", settings);
  };
  EXPECT_EQ(why({}),
            "of 3,008 steps env.count=64 makes 47 each, and a sequence takes 64: env.count=32, or "
            "train.steps of 4,096 at least");
  EXPECT_EQ(why({"env.count=16"}), "");
  EXPECT_EQ(why({"dreamer.train_ratio=0"}), "dreamer.train_ratio=0 asks for none");
  EXPECT_EQ(why({"env.count=8", "dreamer.first_steps=5000"}),
            "the first one comes after 5,000 steps: train.steps of 5,120 at least");
  EXPECT_TRUE(
      contains(why({"env.count=8", "dreamer.update_every=4000"}), "(dreamer.update_every=4000)"));
  // what learns from its own steps alone, and files
  EXPECT_EQ(said_of(why_no_update, "ppo", "cartpole", {"train.steps=1"}), "");
  EXPECT_EQ(why({"train.dataset=x.safetensors"}), "");
}

TEST(ShortReplay, is_told_with_the_capacity_that_is_enough) {
  const auto note = [](std::vector<std::string> settings) {
    settings.insert(settings.begin(), {"env.max_steps=20", "env.count=8", "train.steps=2000",
                                       "tdmpc2.horizon=3", "tdmpc2.update_every=1"});
    return said_of(short_replay_note, "tdmpc2", "hockey", settings);
  };
  EXPECT_EQ(note({"tdmpc2.capacity=50"}),
            "the replay keeps 6 steps of each environment, and an episode of up to 20 with a "
            "sequence takes 26: updates wait until the next one ends; tdmpc2.capacity=208 keeps "
            "enough");
  EXPECT_EQ(note({"tdmpc2.capacity=208"}), "");
  EXPECT_TRUE(contains(note({"train.replay_capacity=100"}), "train.replay_capacity=208"));
  // nothing of a short run is overwritten, and Dreamer's sequences cross ends
  EXPECT_EQ(note({"tdmpc2.capacity=50", "train.steps=48"}), "");
  EXPECT_EQ(said_of(short_replay_note, "dreamer", "cartpole", {"dreamer.capacity=2000"}), "");
}

}  // namespace
}  // namespace maglev
