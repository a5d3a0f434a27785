#include "verbs/tune/knobs.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "base/core/error.h"

namespace maglev::verbs::tune {
namespace {

Knobs knobs(const Experiment& experiment, const std::vector<std::string>& learning = {}) {
  return knobs_of(experiment, place("cpu", 0), learning);
}

const Knob* find(const Knobs& knobs, const std::string& name) {
  const auto it = std::ranges::find(knobs.searched, name, &Knob::setting);
  return it == knobs.searched.end() ? nullptr : &*it;
}

std::string why_idle(const Knobs& knobs, const std::string& name) {
  const auto it = std::ranges::find(knobs.idle, name, &Idle::setting);
  return it == knobs.idle.end() ? "" : it->why;
}

TEST(tune_knobs, of_every_algorithm_are_its_free_settings_and_each_value_is_taken) {
  for (const AlgoEntry& algo : algo_table()) {
    if (!algo.small.env) continue;
    Experiment experiment(algo.name, algo.small.env);
    const Knobs found = knobs(experiment);
    size_t free = 0;
    for (const Field& field : experiment.table().fields()) free += field.rule.free;
    EXPECT_EQ(found.searched.size() + found.idle.size(), free) << algo.name;
    for (const Knob& knob : found.searched) {
      EXPECT_TRUE(experiment.table().find(knob.setting)->rule.free) << knob.setting;
      EXPECT_FALSE(std::ranges::count(knob.values, knob.now)) << knob.setting;
      const std::set<std::string> once(knob.values.begin(), knob.values.end());
      EXPECT_EQ(once.size(), knob.values.size()) << knob.setting;
      for (const std::string& value : knob.values)
        EXPECT_NO_THROW(experiment.table().set(knob.setting, value)) << knob.setting << value;
      experiment.table().set(knob.setting, knob.now);
    }
  }
}

TEST(tune_knobs, processes_of_environments_are_as_many_as_there_are_environments_at_most) {
  Experiment experiment("ppo", "gymnasium");
  experiment.table().override_with("env.count=3");
  const Knobs found = knobs(experiment);
  const auto workers = std::ranges::find(found.searched, "env.workers", &Knob::setting);
  const int64_t all = place("cpu", 0).threads;
  std::vector<std::string> expected;
  for (const int64_t n : {1, 2})
    if (n != all) expected.push_back(std::to_string(n));
  ASSERT_NE(workers, found.searched.end());
  EXPECT_EQ(workers->values, expected);
  // how long one waits is no matter of speed
  EXPECT_EQ(std::ranges::count(found.searched, "env.timeout", &Knob::setting), 0);
}

TEST(tune_knobs, what_changes_learning_is_no_free_setting) {
  for (const AlgoEntry& algo : algo_table()) {
    if (!algo.small.env) continue;
    Experiment experiment(algo.name, algo.small.env);
    for (const char* name :
         {"seed", "env.count", "train.precision", "train.overlap", "train.steps"})
      EXPECT_FALSE(experiment.table().find(name)->rule.free) << name;
  }
}

TEST(tune_knobs, what_cannot_matter_here_is_told_why) {
  Experiment vectors("ppo", "cartpole");
  const Knobs found = knobs(vectors);
  EXPECT_EQ(why_idle(found, "train.graph"), "the run is on a processor");
  EXPECT_EQ(why_idle(found, "train.prefetch"), "ppo has no replay");
  EXPECT_NE(why_idle(found, "ppo.shard_rows"), "");
  EXPECT_EQ(why_idle(found, "ppo.network.cnn.fused_layers"), "the network is mlp");
  Experiment cells("ppo", "minatar_breakout");
  EXPECT_TRUE(find(knobs(cells), "ppo.shard_rows"));
  EXPECT_TRUE(find(knobs(cells), "ppo.network.cnn.fused_layers"));
  Experiment replay("dreamer", "pendulum");
  EXPECT_TRUE(find(knobs(replay), "train.prefetch"));
  EXPECT_EQ(why_idle(knobs(replay), "dreamer.fused_images"), "nothing is seen as an image");
  const Knobs shares = knobs(replay);
  ASSERT_TRUE(find(shares, "dreamer.shard"));
  EXPECT_EQ(find(shares, "dreamer.shard")->values, (std::vector<std::string>{"8", "4", "2", "1"}));
  replay.table().override_with("dreamer.fused=off");
  EXPECT_EQ(why_idle(knobs(replay), "dreamer.shard"), "the reference learns from whole batches");
}

TEST(tune_knobs, fewer_products_matter_to_convolutions_with_relu_in_fp32_on_a_processor) {
  const std::string winograd = "ppo.network.cnn.winograd";
  EXPECT_EQ(why_idle(knobs(Experiment("ppo", "cartpole")), winograd), "the network is mlp");
  Experiment cells("ppo", "minatar_breakout");
  EXPECT_EQ(why_idle(knobs(cells), winograd), "it needs activation=relu");
  cells.table().override_with("ppo.network.activation=relu");
  EXPECT_TRUE(find(knobs(cells), winograd));
  EXPECT_EQ(why_idle(knobs_of(cells, place("cpu", 0, Precision::bf16), {}), winograd),
            "it is for fp32");
  cells.table().override_with("ppo.network.cnn.fused_layers=false");
  EXPECT_EQ(why_idle(knobs(cells), winograd), "it needs fused_layers");
}

TEST(tune_knobs, what_the_command_line_gave_stays) {
  Experiment experiment("ppo", "cartpole");
  experiment.table().override_with("train.collect=lockstep");
  EXPECT_EQ(why_idle(knobs(experiment), "train.collect"), "it was given");
}

TEST(tune_knobs, learning_settings_come_when_they_are_named) {
  Experiment experiment("ppo", "cartpole");
  EXPECT_FALSE(find(knobs(experiment), "env.count"));
  const Knobs found = knobs(experiment, {"env.count", "train.precision"});
  ASSERT_TRUE(find(found, "env.count"));
  EXPECT_EQ(find(found, "env.count")->now, "64");
  EXPECT_TRUE(std::ranges::count(find(found, "env.count")->values, "128"));
  EXPECT_TRUE(std::ranges::count(find(found, "train.precision")->values, "bf16"));
  // and first, whatever the budget; a free one that is named too
  EXPECT_EQ(found.searched[0].setting, "env.count");
  EXPECT_EQ(found.searched[1].setting, "train.precision");
  EXPECT_EQ(knobs(experiment, {"ppo.fused"}).searched[0].setting, "ppo.fused");
  EXPECT_THROW(knobs(experiment, {"ppo.lr"}), Error);
  EXPECT_THROW(knobs(experiment, {"env.cuont"}), Error);
  // lengths and logs change nothing that is measured
  for (const char* name : {"train.steps", "train.log_every", "train.keep"})
    EXPECT_THROW(knobs(experiment, {"env.count", name}), Error) << name;
}

}  // namespace
}  // namespace maglev::verbs::tune
