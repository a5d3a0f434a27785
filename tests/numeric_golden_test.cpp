// A seed is one run: on panels, training gives the same bits on every processor with AVX2 and fused
// multiply-add, on any number of threads. The hashes below are of the state after some iterations.
// Where arithmetic was changed on purpose a test prints the new one to put in its place.

#include <ostream>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "base/simd/targets.h"
#include "engine/host/machine.h"
#include "engine/run/checkpoint.h"
#include "engine/train/trainer.h"

namespace maglev {
namespace {

struct Golden {
  const char *name, *algo, *env;
  std::vector<const char*> settings;
  int iterations;
  const char* hash;
};

std::ostream& operator<<(std::ostream& out, const Golden& golden) { return out << golden.name; }

// heads and Gaussians, every activation, all that is normalised, clipped and scheduled;
// terminations, dropout, rows that fill no panel
const std::vector<Golden>& goldens() {
  static const std::vector<Golden> all{
      {"cartpole",
       "ppo",
       "cartpole",
       {"env.count=24", "ppo.rollout=32", "ppo.minibatch=300", "ppo.lr_end=0.1", "ppo.clip_end=0.5",
        "ppo.value_clip=0.2", "ppo.clip_grad=module", "ppo.weight_decay=0.01"},
       4,
       "5088b0d181447ef34c5b4c1e36a2dba9"},
      {"pendulum",
       "ppo",
       "pendulum",
       {"env.count=20", "ppo.rollout=32", "ppo.minibatch=128", "ppo.normalize_reward=true",
        "ppo.network.normalize_obs=true", "ppo.network.activation=silu", "ppo.entropy=0.01"},
       4,
       "e2b0ca8a3eb165d864e3d1098b5b2f51"},
      {"acrobot",
       "ppo",
       "acrobot",
       {"env.count=32", "ppo.rollout=16", "ppo.minibatch=256", "ppo.entropy=0.01",
        "ppo.network.hidden=[72,40]", "ppo.network.activation=relu", "ppo.network.shared=true",
        "ppo.network.critic_hidden=[24]", "ppo.network.value_head=popart", "ppo.target_kl=0.05"},
       3,
       "dafc74066b6a044c8b593ff534b0a5f7"},
      {"world_model",
       "tdmpc2",
       "pendulum",
       {"env.count=4", "tdmpc2.fused=on", "tdmpc2.enc_dim=64", "tdmpc2.mlp_dim=64",
        "tdmpc2.latent_dim=32", "tdmpc2.num_q=3", "tdmpc2.samples=72", "tdmpc2.elites=16",
        "tdmpc2.policy_trajectories=8", "tdmpc2.iterations=3", "tdmpc2.batch=70",
        "tdmpc2.dropout=0.1", "tdmpc2.seed_steps=40", "tdmpc2.updates_per_step=0.25"},
       16,
       "5b9e3460f731c17737c7a133680a39a3"}};
  return all;
}

std::string trained(const Golden& golden, int threads) {
  claim_threads();
  Experiment experiment(golden.algo, golden.env);
  experiment.table().override_with("seed=7");
  for (const char* setting : golden.settings) experiment.table().override_with(setting);
  Trainer trainer(experiment, {.device = at::kCPU, .threads = threads});
  for (int i = 0; i < golden.iterations; ++i) trainer.iterate();
  return state_hash([&](StateVisitor& v) { trainer.visit_state(v); });
}

class GoldenRun : public testing::TestWithParam<Golden> {};

TEST_P(GoldenRun, gives_the_same_bits_on_every_processor_and_any_number_of_threads) {
  const std::string hash = trained(GetParam(), 1);
  EXPECT_EQ(trained(GetParam(), 2), hash) << "threads show";
  if (!simd_has_fma()) GTEST_SKIP() << "without fused multiply-add a run has other bits";
  EXPECT_EQ(hash, GetParam().hash)
      << "if arithmetic was changed on purpose, \"" << hash << "\" is the new hash of '"
      << GetParam().name << "' in tests/numeric_golden_test.cpp";
}

INSTANTIATE_TEST_SUITE_P(Panels, GoldenRun, testing::ValuesIn(goldens()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace maglev
