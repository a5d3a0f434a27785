#include "engine/train/trainer.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "engine/run/checkpoint.h"

namespace maglev {
namespace {

using Settings = std::vector<std::string>;

std::string hash_of(Trainer& trainer) {
  return state_hash([&](StateVisitor& v) { trainer.visit_state(v); });
}

/// The state after some iterations of PPO on `env`.
std::string trained(const std::string& env, const Settings& settings, int threads) {
  claim_threads();
  Experiment experiment("ppo", env);
  for (const char* common : {"ppo.rollout=12", "ppo.epochs=1", "ppo.network.kind=mlp",
                             "ppo.network.hidden=[16]", "ppo.minibatch=200", "seed=7"})
    experiment.table().override_with(common);
  for (const auto& setting : settings) experiment.table().override_with(setting);
  Trainer trainer(experiment, {.device = at::kCPU, .threads = threads});
  for (int i = 0; i < 4; ++i) trainer.iterate();
  return hash_of(trainer);
}

TEST(Trainer, blocks_that_run_ahead_collect_what_lockstep_collects_on_any_number_of_threads) {
  for (const char* env : {"cartpole", "pendulum", "goodhart"})
    for (const char* count : {"env.count=20", "env.count=150"}) {
      const auto reference = trained(env, {count, "train.collect=lockstep"}, 1);
      for (int threads : {1, 2, 3}) {
        EXPECT_EQ(trained(env, {count, "train.collect=lockstep"}, threads), reference)
            << env << " " << count << ", " << threads << " threads";
        EXPECT_EQ(trained(env, {count, "train.collect=blocks"}, threads), reference)
            << env << " " << count << ", " << threads << " threads";
      }
      EXPECT_NE(trained(env, {count, "seed=8"}, 1), reference);
    }
}

TEST(Trainer, names_the_first_number_that_is_not_finite) {
  claim_threads();
  Experiment experiment("ppo", "pendulum");
  for (const char* setting : {"env.count=130", "ppo.rollout=8", "ppo.network.hidden=[8]"})
    experiment.table().override_with(setting);
  Trainer trainer(experiment, {.device = at::kCPU, .threads = 2});
  trainer.iterate();
  // environment 100 goes astray at the first step of the second rollout
  struct Spoil : StateVisitor {
    void visit_tensor(const std::string& name, at::Tensor& value) override {
      if (name != "envs.slots") return;
      auto* state = reinterpret_cast<float*>(value[100].data_ptr<uint8_t>() + kSlotHead);
      state[0] = std::numeric_limits<float>::quiet_NaN();
    }
    void visit_integer(const std::string&, int64_t&) override {}
    void visit_real(const std::string&, double&) override {}
    void visit_text(const std::string&, std::string&) override {}
  } spoil;
  trainer.visit_state(spoil);
  try {
    trainer.iterate();
    FAIL() << "went on";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("reward of environment 100 at time step 8"),
              std::string::npos)
        << e.what();
  }
}

TEST(Carry, rows_of_a_block_share_the_memory_of_the_whole) {
  Carry carry{{at::zeros({6, 2}), at::zeros({6})}};
  Carry block = carry.rows(2, 3);
  for (auto& part : block.parts) part.fill_(1);
  EXPECT_TRUE(at::equal(carry.parts[1], at::tensor({0.f, 0.f, 1.f, 1.f, 1.f, 0.f})));
  EXPECT_EQ(carry.parts[0].sum().item<float>(), 6);
}

}  // namespace
}  // namespace maglev
