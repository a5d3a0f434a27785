// A policy alone is the one its learner acts by.

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/play/evaluate.h"
#include "engine/run/checkpoint.h"
#include "engine/train/trainer.h"
#include "tests/folder.h"

namespace maglev {
namespace {

// every algorithm by its small run: tests/train_algorithms_test.cpp
const std::vector<std::string> kCases[] = {{"ppo.network.normalize_obs=true"}, {"ppo.fused=false"}};

TEST(Policy, made_alone_acts_as_the_learner_whatever_settings_of_learning_say) {
  claim_threads();
  for (const auto& settings : kCases) {
    Experiment experiment("ppo", "pendulum");
    for (const char* common : {"env.count=4", "env.max_steps=20", "train.steps=200",
                               "ppo.network.hidden=[16]", "ppo.rollout=32"})
      experiment.table().override_with(common);
    for (const auto& setting : settings) experiment.table().override_with(setting);
    Trainer trainer(experiment, {.device = at::kCPU, .threads = 1});
    while (!trainer.done()) trainer.iterate();
    const std::string folder = test_folder() + "/policy";
    const CheckpointIdentity identity{.algo = "ppo", .env = "pendulum"};
    const auto path =
        save_checkpoint(folder, identity, [&](StateVisitor& v) { trainer.visit_state(v); });

    // settings that only a learner could refuse do not concern who acts
    experiment.table().override_with("ppo.minibatch=1000000");
    const auto policy = experiment.algo().make_policy(
        experiment.algo_options(), context_of(experiment, trainer.placement(), trainer.pool()));
    load_section(path, "algo", identity, [&](StateVisitor& v) { policy->visit_state(v); });
    policy->publish();
    for (ActMode mode : {ActMode::mean, ActMode::sample}) {
      const auto returns_of = [&](Policy& one) {
        PolicyPlayer player(one, "policy", mode);
        return evaluate(player, game_of(experiment, trainer.placement(), trainer.pool()),
                        {.episodes = 4});
      };
      const auto learner = returns_of(trainer.algorithm().policy()), alone = returns_of(*policy);
      EXPECT_EQ(learner.returns, alone.returns) << settings[0];
      EXPECT_EQ(learner.episodes, 4) << settings[0];
    }
    std::filesystem::remove_all(folder);
  }
}

}  // namespace
}  // namespace maglev
