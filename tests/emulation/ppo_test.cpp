// PPO as it runs on a GPU, on the emulated device: acting, environments and updates through the
// CUDA side of kernels, held to the CPU, and every launch of an iteration counted.

#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "engine/data/state.h"
#include "engine/train/trainer.h"
#include "tests/close.h"
#include "tests/emulation/counted.h"
#include "tests/emulation/device.h"
#include "tests/random_rollouts.h"

namespace maglev {
namespace {

using emulation::CountedOperations;
using emulation::kEmulatedDevice;
using emulation::without_arguments;
using ppo::Options;

constexpr int64_t kRows = 12, kUpdates = 2;

// What rounding may move a parameter by, as in algos/ppo/learner_test.cpp: each step is lr m /
// (sqrt(v) + eps), so an error d of the gradient moves it by at most lr d / eps; components are
// sums of about 100 roundings of numbers of at most 1. Sums of blocks, of lanes and of their
// squares are added in other orders here, exponentials are other functions: none of it is longer.
constexpr double kLr = 3e-3, kEps = 1e-3, kRounding = 0x1p-24;
constexpr int64_t kSteps = kUpdates * 2 * 3;
constexpr double kWeightBound = kSteps * kLr * 10 * kRounding / kEps;
constexpr double kFigureBound = 4 * kWeightBound;

struct Setting {
  const char* name;
  std::function<void(Options&)> change;
};

const std::vector<Setting>& settings() {
  static const std::vector<Setting> list{
      {"plain", [](Options&) {}},
      {"whole rollout", [](Options& o) { o.minibatch = 0; }},
      {"minibatch of one row left", [](Options& o) { o.minibatch = 191; }},
      {"value clip", [](Options& o) { o.value_clip = 0.02; }},
      {"value clip to a quarter", [](Options& o) { o.value_clip = 0.05, o.value_clip_end = 0.25; }},
      {"entropy floor", [](Options& o) { o.entropy_floor = 9, o.entropy_floor_penalty = 3; }},
      {"entropy until half of the run",
       [](Options& o) {
         o.entropy = 2, o.entropy_end = 0.1, o.entropy_until = 0.5;
         o.entropy_floor = 9, o.entropy_floor_penalty = 3;
       }},
      {"advantages by batch",
       [](Options& o) { o.normalize_advantage = ppo::AdvantageNorm::batch; }},
      {"normalized reward", [](Options& o) { o.normalize_reward = true; }},
      {"gradient by module",
       [](Options& o) { o.max_grad_norm = 0.05, o.clip_grad = ppo::ClipGrad::per_module; }},
      {"target KL", [](Options& o) { o.target_kl = 1e-5; }},
      {"relu", [](Options& o) { o.network.activation = HiddenActivation::relu; }},
      {"silu", [](Options& o) { o.network.activation = HiddenActivation::silu; }},
      {"shared trunk", [](Options& o) { o.network.shared = true, o.network.critic_hidden = {8}; }},
      {"popart", [](Options& o) { o.network.value_head = ValueHeadKind::popart; }},
      {"normalized observations", [](Options& o) { o.network.normalize_obs = true; }},
  };
  return list;
}

Options with(const Setting& setting) {
  Options o = small();
  o.minibatch = 80, o.epochs = 2, o.lr = kLr, o.adam_eps = kEps;
  o.network.hidden = {24, 16};
  setting.change(o);
  return o;
}

// parameters lie further apart on a device
at::Tensor parameters(RandomRollouts& run) {
  std::vector<at::Tensor> all;
  for (const auto& p : run.ppo.policy().network().parameters()) all.push_back(p.flatten());
  return at::cat(all).cpu();
}

class EmulatedPpo : public testing::TestWithParam<EnvSpec> {};

TEST_P(EmulatedPpo, acts_and_learns_as_the_cpu_does) {
  for (const auto& setting : settings()) {
    const Options options = with(setting);
    RandomRollouts cpu(GetParam(), kRows, options, 1, kUpdates);
    RandomRollouts device(GetParam(), kRows, options, 1, kUpdates, Precision::fp32,
                          kEmulatedDevice);
    ASSERT_NE(cpu.ppo.policy().panels(), nullptr);
    ASSERT_NE(device.ppo.policy().panels(), nullptr);
    const Tolerance sums = Tolerance::of_sums(sums_of(cpu.ppo.policy().network()), kRounding) * 10;
    for (int64_t i = 0; i < kUpdates; ++i) {
      const Batch& theirs = cpu.collect(i);
      const at::Tensor action = theirs.action.clone(),
                       log_prob = theirs.extra[ppo::log_prob_column].clone();
      emulation::clear_launches();
      const Batch& batch = device.collect(i);
      if (i == 0) {
        // the same networks: the same categories, or as near as sums of other orders are
        const bool discrete = GetParam().action.discrete();
        EXPECT_TRUE(close(batch.action.cpu(), action, discrete ? Tolerance(0) : sums))
            << setting.name;
        EXPECT_TRUE(close(batch.extra[ppo::log_prob_column].cpu(), log_prob, sums)) << setting.name;
      }
      cpu.learn(relived(cpu, batch));
      device.learn(batch);
      EXPECT_GT(emulation::launches().at("learn (actor_critic.cu)"), 0);
    }
    EXPECT_TRUE(close(parameters(device), parameters(cpu), kWeightBound)) << setting.name;
    const auto ours = device.figures(), theirs = cpu.figures();
    ASSERT_EQ(ours.size(), theirs.size());
    for (size_t f = 0; f < ours.size(); ++f)
      EXPECT_NEAR(ours[f].second, theirs[f].second,
                  kFigureBound * std::max(1.0, std::abs(theirs[f].second)))
          << setting.name << ", " << ours[f].first;
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, EmulatedPpo,
                         testing::Values(vectors(), masked_heads(), privileged()),
                         [](const auto& info) {
                           return std::string(info.param.action.masked       ? "masked_heads"
                                              : info.param.action.discrete() ? "vectors"
                                                                             : "privileged");
                         });

struct Counted {
  std::map<std::string, int64_t> launches, operations;
};

/// What of an iteration reaches the device.
Counted iteration(Trainer& trainer) {
  emulation::clear_launches();
  const CountedOperations operations;
  trainer.iterate();
  Counted counted{.launches = {}, .operations = operations.of()};
  for (const auto& [name, count] : emulation::launches())
    counted.launches[without_arguments(name)] += count;
  return counted;
}

constexpr int64_t kEnvs = 40, kT = 6, kEpochs = 2, kMinibatches = 3;

struct Training {
  Experiment experiment;
  std::unique_ptr<Trainer> trainer;

  Training(const std::string& env, const std::vector<std::string>& settings,
           Precision precision = Precision::fp32)
      : experiment("ppo", env) {
    claim_threads();
    for (const std::string& one :
         {"env.count=" + std::to_string(kEnvs), "ppo.rollout=" + std::to_string(kT),
          "ppo.epochs=" + std::to_string(kEpochs),
          "ppo.minibatch=" + std::to_string(kEnvs * kT / kMinibatches),
          std::string("ppo.network.hidden=[16, 16]"), std::string("train.graph=on")})
      experiment.table().override_with(one);
    for (const auto& one : settings) experiment.table().override_with(one);
    trainer = std::make_unique<Trainer>(
        experiment, Placement{.device = kEmulatedDevice, .threads = 1, .precision = precision});
  }
};

class EmulatedRun : public testing::TestWithParam<const char*> {};

TEST_P(EmulatedRun, takes_these_launches_an_iteration) {
  Training run(GetParam(), {});
  // the first sets up what later ones find; the second is as graphs have it, and not yet one
  run.trainer->iterate();
  const Counted counted = iteration(*run.trainer);
  constexpr int64_t M = kEpochs * kMinibatches;
  std::map<std::string, int64_t> expected{
      // a time step
      {"act (actor_critic.cu)", kT},
      {"step_slots", kT},
      // a rollout
      {"look (finite.cu)", 1},
      // an update
      {"begin_update (ppo_scalars.cu)", 1},
      {"values (actor_critic.cu)", 1},
      {"gae_columns (gae.cu)", 1},
      {"chunk_statistics (advantage.cu)", 1},
      {"explain (advantage.cu)", 1},
      {"report_update (ppo_scalars.cu)", 1},
      // an epoch
      {"fill_permutation (philox.cu)", kEpochs},
      // a minibatch of up to 1024 rows; chunk_statistics once more where it is larger
      {"begin_minibatch (ppo_scalars.cu)", M},
      {"learn (actor_critic.cu)", M},
      {"end_minibatch (ppo_scalars.cu)", M},
      {"reduce_chunks (adam.cu)", M},
      {"clip (adam.cu)", M},
      {"step_elements (adam.cu)", M},
      {"report_step (ppo_scalars.cu)", M}};
  if (run.trainer->envs().spec().action.discrete())
    expected["count_actions (action_counts.cu)"] = 1;
  EXPECT_EQ(counted.launches, expected);
  // counters of time steps and updates; the rollout's last row, which begins the next
  const std::map<std::string, int64_t> operations_expected{{"aten::add_", 2}, {"aten::copy_", 2}};
  EXPECT_EQ(counted.operations, operations_expected);
  int64_t launches = 0, operations = 0;
  for (const auto& [name, count] : counted.launches) {
    launches += count;
    std::printf("  %3ld %s\n", long(count), name.c_str());
  }
  for (const auto& [name, count] : counted.operations) {
    operations += count;
    std::printf("  %3ld %s\n", long(count), name.c_str());
  }
  std::printf(
      "%s: %ld launches and %ld operations of ATen an iteration of %ld time steps and %ld "
      "minibatches\n",
      GetParam(), long(launches), long(operations), long(kT), long(M));
}

TEST(EmulatedRun, makes_all_of_them_dependent_where_it_is_asked_to) {
  for (const bool dependent : {true, false}) {
    Training run("cartpole", {dependent ? "train.dependent_launch=true" : "train.graph=on"});
    run.trainer->iterate();
    int64_t launches = 0;
    for (const auto& [name, count] : iteration(*run.trainer).launches) launches += count;
    EXPECT_GT(launches, 0);
    EXPECT_EQ(emulation::dependent_launches(), dependent ? launches : 0);
  }
}

// the same networks where they are too wide for the kernel: ATen's layers under autograd
TEST_P(EmulatedRun, takes_more_operations_off_panels) {
  Training run(GetParam(), {"ppo.network.hidden=[16, 264]"});
  run.trainer->iterate();
  const Counted counted = iteration(*run.trainer);
  EXPECT_EQ(counted.launches.count("learn (actor_critic.cu)"), 0u);
  int64_t launches = 0, operations = 0;
  for (const auto& [name, count] : counted.launches) launches += count;
  for (const auto& [name, count] : counted.operations) operations += count;
  // a minibatch alone is more than a whole iteration's on panels
  EXPECT_GT(operations, 40 * kEpochs * kMinibatches);
  std::printf("%s off panels: %ld launches and %ld operations of ATen\n", GetParam(),
              long(launches), long(operations));
}

TEST_P(EmulatedRun, steps_environments_as_the_cpu_does) {
  Training run(GetParam(), {});
  run.trainer->iterate();
  // the same actions on the CPU
  const Batch& came = run.trainer->rollout().batch();
  ThreadPool pool(1);
  VecEnv envs(run.experiment.env(), run.experiment.env_params(), kEnvs, run.experiment.run.seed,
              at::kCPU, pool);
  Rollout rollout(envs.spec(), {.T = kT, .rows = kEnvs, .block_rows = kEnvs}, {}, at::kCPU);
  envs.reset(rollout.window().first_io());
  for (int64_t t = 0; t < kT; ++t) {
    rollout.step(t).action.copy_(came.action[t]);
    envs.step(rollout.window().io(t));
  }
  const Batch& ours = rollout.batch();
  // row 0 has become the next rollout's
  for (size_t c = 0; c < ours.obs.size(); ++c)
    EXPECT_TRUE(at::equal(came.obs[c].narrow(0, 1, kT).cpu(), ours.obs[c].narrow(0, 1, kT)));
  EXPECT_TRUE(at::equal(came.is_first.narrow(0, 1, kT).cpu(), ours.is_first.narrow(0, 1, kT)));
  EXPECT_TRUE(at::equal(came.reward.cpu(), ours.reward));
  EXPECT_TRUE(at::equal(came.terminated.cpu(), ours.terminated));
  EXPECT_TRUE(at::equal(came.truncated.cpu(), ours.truncated));
}

/// Sets the scale that a loss in fp16 is multiplied with.
struct ScaleTo : PartialVisitor {
  explicit ScaleTo(double to) : scale(to) {}
  double scale;
  int found = 0;

 private:
  void visit_tensor(const std::string& name, at::Tensor& value) override {
    if (name.ends_with("loss_scale.scale")) value.fill_(scale), ++found;
  }
};

std::string divergence_at_scale(double scale) {
  Training run("pendulum", {}, Precision::fp16);
  run.trainer->iterate();
  run.trainer->flush();
  ScaleTo to(scale);
  run.trainer->visit_state(to);
  EXPECT_EQ(to.found, 1);
  run.trainer->iterate();
  const MetricRow row = run.trainer->flush();
  for (const auto& [name, value] : row.values) {
    // all steps that were left out so far
    if (name == "loss/nonfinite_steps" && scale > 1) {
      EXPECT_GT(value, 0);
    }
    if (name == "loss/grad_norm" && scale < 1) {
      EXPECT_TRUE(std::isfinite(value));
    }
  }
  return run.trainer->report().divergence();
}

TEST(EmulatedFp16, a_scale_that_is_too_high_is_no_divergence_and_none_low_enough_is_one) {
  EXPECT_EQ(divergence_at_scale(1e30), "");
  const std::string told = divergence_at_scale(0.25);
  EXPECT_NE(told.find("loss/scale is below 1"), std::string::npos) << told;
}

INSTANTIATE_TEST_SUITE_P(Envs, EmulatedRun, testing::Values("cartpole", "pendulum"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace maglev
