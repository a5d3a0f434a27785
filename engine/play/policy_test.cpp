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

struct Case {
  std::string algo;
  std::vector<std::string> settings;
};

const Case kCases[] = {
    {"ppo", {"ppo.network.hidden=[16]", "ppo.network.normalize_obs=true", "ppo.rollout=32"}},
    {"ppo", {"ppo.network.hidden=[16]", "ppo.fused=false", "ppo.rollout=32"}},
    {"tdmpc2",
     {"tdmpc2.enc_dim=24", "tdmpc2.mlp_dim=32", "tdmpc2.latent_dim=16", "tdmpc2.num_q=3",
      "tdmpc2.samples=24", "tdmpc2.elites=6", "tdmpc2.policy_trajectories=4", "tdmpc2.iterations=2",
      "tdmpc2.seed_steps=128", "tdmpc2.updates_per_step=0.05", "tdmpc2.batch=16"}}};

TEST(Policy, made_alone_acts_as_the_learner_whose_checkpoint_it_reads) {
  claim_threads();
  for (const Case& c : kCases) {
    Experiment experiment(c.algo, "pendulum");
    for (const char* common : {"env.count=4", "env.max_steps=20", "train.steps=200"})
      experiment.table().override_with(common);
    for (const auto& setting : c.settings) experiment.table().override_with(setting);
    Trainer trainer(experiment, {.device = at::kCPU, .threads = 1});
    while (!trainer.done()) trainer.iterate();
    const std::string folder = test_folder() + "/policy_of_" + c.algo;
    const CheckpointIdentity identity{.algo = c.algo, .env = "pendulum"};
    const auto path =
        save_checkpoint(folder, identity, [&](StateVisitor& v) { trainer.visit_state(v); });

    // settings that only a learner could refuse do not concern who acts
    if (c.algo == "ppo") experiment.table().override_with("ppo.minibatch=1000000");
    const auto policy = experiment.algo().make_policy(
        experiment.algo_options(), context_of(experiment, trainer.placement(), trainer.pool()));
    load_section(path, "algo", identity, [&](StateVisitor& v) { policy->visit_state(v); });
    policy->publish();
    for (ActMode mode : {ActMode::mean, ActMode::sample}) {
      const EvalOptions options{.episodes = 4, .mode = mode};
      const auto learner = evaluate(trainer.algorithm().policy(), experiment, trainer.placement(),
                                    trainer.pool(), options);
      const auto alone =
          evaluate(*policy, experiment, trainer.placement(), trainer.pool(), options);
      EXPECT_EQ(learner.returns, alone.returns) << c.algo;
      EXPECT_EQ(learner.episodes, 4) << c.algo;
    }
    std::filesystem::remove_all(folder);
  }
}

}  // namespace
}  // namespace maglev
