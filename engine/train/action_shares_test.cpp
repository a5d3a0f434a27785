#include "engine/train/action_shares.h"

#include <map>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "engine/train/trainer.h"

namespace maglev {
namespace {

TEST(ActionShares, are_named_by_head_and_category_and_are_not_too_many) {
  EXPECT_EQ(ActionShares({.heads = {2}}).names(),
            (std::vector<std::string>{"actions/0", "actions/1"}));
  EXPECT_EQ(ActionShares({.heads = {1, 2}}).names(),
            (std::vector<std::string>{"actions/0/0", "actions/1/0", "actions/1/1"}));
  EXPECT_EQ(ActionShares({.heads = {16, 16}}).names().size(), 32u);
  EXPECT_TRUE(ActionShares({.heads = {16, 17}}).names().empty());
  EXPECT_TRUE(ActionShares({.low = {-1}, .high = {1}}).names().empty());
}

TEST(ActionShares, are_called_as_the_environment_calls_its_actions) {
  using Labels = std::map<std::string, std::string>;
  EXPECT_EQ(ActionShares::labels({.heads = {2}}), Labels());
  EXPECT_EQ(
      ActionShares::labels({.heads = {2, 2}, .names = {"a", "b", "c", "d"}}),
      (Labels{
          {"actions/0/0", "a"}, {"actions/0/1", "b"}, {"actions/1/0", "c"}, {"actions/1/1", "d"}}));
}

// what was collected, counted one by one
TEST(ActionShares, of_a_row_are_those_of_the_actions_since_the_last) {
  claim_threads();
  Experiment experiment("ppo", "goodhart");
  for (const char* setting :
       {"env.count=10", "ppo.rollout=12", "env.max_steps=5", "env.width=32", "env.height=32",
        "env.max_food=64", "env.max_poison=64", "ppo.network.hidden=[8]", "ppo.minibatch=60"})
    experiment.table().override_with(setting);
  Trainer trainer(experiment, {.device = at::kCPU, .threads = 2});
  std::map<std::string, double> counts;
  double taken = 0, resets = 0;
  for (int i = 0; i < 3; ++i) {
    trainer.iterate();
    const Batch& batch = trainer.rollout().batch();
    const auto action = batch.action.accessor<int32_t, 3>();
    const auto first = batch.is_first.accessor<uint8_t, 2>();
    for (int64_t t = 0; t < 12; ++t)
      for (int64_t row = 0; row < 10; ++row) {
        // what is done as an episode begins is no action
        if (first[t + 1][row]) {
          resets += 1;
          continue;
        }
        counts["actions/" + std::to_string(action[t][row][0])] += 1;
        taken += 1;
      }
  }
  EXPECT_GT(resets, 0);
  double sum = 0;
  int64_t seen = 0;
  for (const auto& [name, share] : trainer.flush().values) {
    if (!name.starts_with("actions/")) continue;
    EXPECT_FLOAT_EQ(float(share), float(counts[name] / taken)) << name;
    sum += share, ++seen;
  }
  EXPECT_EQ(seen, 8);
  EXPECT_NEAR(sum, 1, 1e-6);
  // nothing of it is counted again
  trainer.iterate();
  const MetricRow next = trainer.flush();
  double again = 0;
  for (const auto& [name, share] : next.values)
    if (name.starts_with("actions/")) again += share;
  EXPECT_NEAR(again, 1, 1e-6);
}

}  // namespace
}  // namespace maglev
