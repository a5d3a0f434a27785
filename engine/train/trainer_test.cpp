#include "engine/train/trainer.h"

#include <cmath>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "engine/run/checkpoint.h"
#include "engine/run/snapshot.h"
#include "tests/errors.h"

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
  for (const char* env : {"cartpole", "pendulum", "goodhart", "dispatch"})
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

TEST(Trainer, a_run_without_an_end_has_rows_too) {
  claim_threads();
  Experiment experiment("ppo", "cartpole");
  for (const char* setting : {"train.steps=9e15", "env.count=16", "ppo.rollout=16", "ppo.epochs=1",
                              "ppo.network.hidden=[8]"})
    experiment.table().override_with(setting);
  Trainer trainer(experiment, {.device = at::kCPU, .threads = 1});
  int iterations = 0;
  while (!trainer.flush_due() && iterations < 200) trainer.iterate(), ++iterations;
  // 100 of 256 steps are more than 10,000
  EXPECT_EQ(iterations, 100);
}

TEST(Trainer, names_the_first_number_that_is_not_finite) {
  claim_threads();
  Experiment experiment("ppo", "pendulum");
  for (const char* setting : {"env.count=130", "ppo.rollout=8", "ppo.network.hidden=[8]"})
    experiment.table().override_with(setting);
  Trainer trainer(experiment, {.device = at::kCPU, .threads = 2});
  trainer.iterate();
  // environment 100 goes astray at the first step of the second rollout
  struct Spoil : PartialVisitor {
    void visit_tensor(const std::string& name, at::Tensor& value) override {
      if (name != "envs.slots") return;
      auto* state = reinterpret_cast<float*>(value[100].data_ptr<uint8_t>() + kSlotHead);
      state[0] = std::numeric_limits<float>::quiet_NaN();
    }
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

/// A trainer of cartpole with `settings`.
struct Small {
  Experiment experiment{"ppo", "cartpole"};
  std::unique_ptr<Trainer> trainer;

  explicit Small(const Settings& settings) {
    claim_threads();
    for (const char* common : {"env.count=8", "ppo.network.hidden=[8]", "ppo.minibatch=32",
                               "train.log_every=160", "ppo.rollout=8"})
      experiment.table().override_with(common);
    for (const auto& setting : settings) experiment.table().override_with(setting);
    trainer = std::make_unique<Trainer>(experiment, Placement{.device = at::kCPU, .threads = 1});
  }
  VisitState visit() {
    return [this](StateVisitor& v) { trainer->visit_state(v); };
  }
};

TEST(Trainer, steps_are_counted_as_steps_where_a_resumed_run_collects_more_at_once) {
  Small first({}), second({"ppo.rollout=16"});
  for (int i = 0; i < 3; ++i) first.trainer->iterate();
  EXPECT_EQ(first.trainer->step(), 3 * 8 * 8);
  StateSnapshot(first.visit()).restore(second.visit());
  second.trainer->iterate();
  EXPECT_EQ(second.trainer->step(), 3 * 8 * 8 + 16 * 8);
  EXPECT_EQ(second.trainer->updates(), 4);
}

TEST(Trainer, figures_since_the_last_flush_survive_a_resume) {
  const auto figures = [](MetricRow row) {
    std::erase_if(row.values, [](const auto& v) { return v.first.starts_with("time/"); });
    return row.values;
  };
  Small unbroken({}), resumed({});
  unbroken.trainer->iterate();
  StateSnapshot(unbroken.visit()).restore(resumed.visit());
  for (Small* run : {&unbroken, &resumed}) run->trainer->iterate();
  const auto a = figures(unbroken.trainer->flush()), b = figures(resumed.trainer->flush());
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_TRUE(a[i].second == b[i].second || (std::isnan(a[i].second) && std::isnan(b[i].second)))
        << a[i].first << ": " << a[i].second << " and " << b[i].second;
  }
}

TEST(Trainer, forged_counters_are_refused_or_bounded) {
  // writes one integer of a state
  struct Forge : PartialVisitor {
    std::string name;
    int64_t value;
    Forge(std::string n, int64_t v) : name(std::move(n)), value(v) {}
    void visit_integer(const std::string& at, int64_t& to) override {
      if (at == name) to = value;
    }
  };
  for (const char* name : {"trainer.steps", "trainer.updates", "trainer.owed_updates",
                           "trainer.recent_next", "trainer.flushed_step", "trainer.episodes"}) {
    Small run({});
    Forge forge(name, -5);
    const std::string error = error_of([&] { run.trainer->visit_state(forge); });
    EXPECT_TRUE(contains(error, name)) << error;
  }
  Small run({});
  Forge endless("trainer.owed_updates", int64_t(1) << 60);
  run.trainer->visit_state(endless);
  run.trainer->iterate();
  EXPECT_LE(run.trainer->updates(), 2);
}

}  // namespace
}  // namespace maglev
