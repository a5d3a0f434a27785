#include "engine/play/rivals.h"

#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "engine/algo/experiment.h"
#include "engine/host/machine.h"

namespace maglev {
namespace {

constexpr int64_t kEnvs = 24;

/// Two policies of the same weights, which play the second agents of tug.
class SamePlayers {
 public:
  SamePlayers(const std::string& algo, const std::vector<std::string>& settings)
      : experiment_((claim_threads(), algo), "tug") {
    for (const auto& setting : settings) experiment_.table().override_with(setting);
    const Placement placement{.device = at::kCPU, .threads = 1};
    const EnvSpec spec = experiment_.spec();
    rivals_ = std::make_unique<Rivals>(experiment_.env(), spec, kEnvs, at::kCPU,
                                       /*seed=*/5);
    for (int i = 0; i < 2; ++i) {
      policies_.push_back(experiment_.algo().make_policy(
          experiment_.algo_options(), context_of(experiment_, placement, pool_)));
      policies_.back()->publish();
      players_.push_back(
          std::make_unique<PolicyPlayer>(*policies_.back(), "same", ActMode::sample));
      rivals_->add(*players_.back());
    }
    rivals_->attach(io_, /*first=*/false);
    rivals_->attach(first_, /*first=*/true);
    std::fill_n(first_.rivals.is_first, kEnvs, uint8_t(1));
  }

  /// What they do where the second one plays the environments that `second` names.
  template <class Second>
  std::vector<float> actions(Second second) {
    for (int64_t env = 0; env < kEnvs; ++env) rivals_->assign(env, second(env));
    rivals_->act(/*step=*/7);
    return {io_.rivals.action_f32, io_.rivals.action_f32 + kEnvs};
  }

 private:
  Experiment experiment_;
  ThreadPool pool_{1};
  std::unique_ptr<Rivals> rivals_;
  std::vector<std::unique_ptr<Policy>> policies_;
  std::vector<std::unique_ptr<PolicyPlayer>> players_;
  StepIo io_, first_;
};

TEST(Rivals, what_a_player_draws_does_not_depend_on_who_plays_elsewhere) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> kinds{
      {"ppo", {"ppo.network.hidden=[16]"}},
      {"ppo", {"ppo.network.hidden=[16]", "ppo.fused=false"}},
      {"tdmpc2",
       {"tdmpc2.enc_dim=24", "tdmpc2.mlp_dim=32", "tdmpc2.latent_dim=16", "tdmpc2.num_q=3",
        "tdmpc2.samples=24", "tdmpc2.elites=6", "tdmpc2.policy_trajectories=4",
        "tdmpc2.iterations=2"}}};
  for (const auto& [algo, settings] : kinds) {
    SamePlayers players(algo, settings);
    const auto alone = players.actions([](int64_t) { return 0; });
    const auto third = players.actions([](int64_t env) { return env % 3 == 1; });
    const auto halves = players.actions([](int64_t env) { return env >= kEnvs / 2; });
    for (int64_t env = 0; env < kEnvs; ++env) {
      EXPECT_NEAR(third[size_t(env)], alone[size_t(env)], 1e-5) << algo << " " << env;
      EXPECT_NEAR(halves[size_t(env)], alone[size_t(env)], 1e-5) << algo << " " << env;
      // all see the same: what differs is the noise of each
      if (env > 0) {
        EXPECT_NE(alone[size_t(env)], alone[0]) << algo << " " << env;
      }
    }
  }
}

}  // namespace
}  // namespace maglev
