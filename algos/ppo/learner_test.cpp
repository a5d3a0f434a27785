// FusedLearner against ReferenceLearner over whole updates, setting by setting: on panels, on ATen
// lanes with fully connected layers, and on lanes with convolutions.

#include <cmath>
#include <functional>
#include <set>
#include <string>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "engine/run/checkpoint.h"
#include "tests/close.h"
#include "tests/folder.h"
#include "tests/random_rollouts.h"
#include "tests/span_names.h"

namespace maglev {
namespace {

using ppo::Options;

constexpr int64_t kRows = 12, kUpdates = 3;
// 3 updates of 2 epochs of 192 rows by 80
constexpr int64_t kSteps = kUpdates * 2 * 3;

// What rounding may move a parameter by. Adam's step is lr m / (sqrt(v) + eps), so an error d of
// the gradient moves it by at most lr d / eps. Gradients are clipped to 0.5 and their components
// are sums over 80 rows of products whose factors went through three layers of at most 24 inputs,
// exponentials and logarithms: about 100 roundings of numbers of at most 1, which add up as their
// root. A step that was clipped on one side only, or left out, would be a hundred times that.
constexpr double kLr = 3e-3, kEps = 1e-3, kRounding = 0x1p-24;
constexpr double kWeightBound = kSteps * kLr * 10 * kRounding / kEps;
// figures are means of numbers of size 1 under weights so far apart
constexpr double kFigureBound = 4 * kWeightBound;

struct Setting {
  const char* name;
  std::function<void(Options&)> change;
};

// every option that changes what an update computes, at a value that shows in the weights
const std::vector<Setting>& settings() {
  static const std::vector<Setting> list{
      {"plain", [](Options&) {}},
      {"whole rollout", [](Options& o) { o.minibatch = 0; }},
      {"minibatch of one row left", [](Options& o) { o.minibatch = 191; }},
      {"lr to zero", [](Options& o) { o.lr_end = 0; }},
      {"clip", [](Options& o) { o.clip = 0.02; }},
      {"clip to a quarter", [](Options& o) { o.clip = 0.05, o.clip_end = 0.25; }},
      {"gamma and lambda", [](Options& o) { o.gamma = 0.8, o.lambda = 0.5; }},
      {"value clip", [](Options& o) { o.value_clip = 0.02; }},
      {"value clip to a quarter", [](Options& o) { o.value_clip = 0.05, o.value_clip_end = 0.25; }},
      {"value clip max",
       [](Options& o) { o.value_clip = 0.02, o.value_clip_loss = ppo::ValueClipLoss::max; }},
      {"value coef", [](Options& o) { o.value_coef = 2; }},
      {"entropy", [](Options& o) { o.entropy = 2, o.entropy_end = 0.1; }},
      {"entropy floor", [](Options& o) { o.entropy_floor = 9, o.entropy_floor_penalty = 3; }},
      {"entropy until half of the run",
       [](Options& o) {
         o.entropy = 2, o.entropy_end = 0.1, o.entropy_until = 0.5;
         o.entropy_floor = 9, o.entropy_floor_penalty = 3;
       }},
      {"advantages as they are",
       [](Options& o) { o.normalize_advantage = ppo::AdvantageNorm::off; }},
      {"advantages by batch",
       [](Options& o) { o.normalize_advantage = ppo::AdvantageNorm::batch; }},
      {"normalized reward", [](Options& o) { o.normalize_reward = true; }},
      {"tight gradient", [](Options& o) { o.max_grad_norm = 0.01; }},
      {"free gradient", [](Options& o) { o.max_grad_norm = 0; }},
      {"gradient by module",
       [](Options& o) { o.max_grad_norm = 0.05, o.clip_grad = ppo::ClipGrad::per_module; }},
      {"target KL", [](Options& o) { o.target_kl = 1e-5; }},
      {"leash", [](Options& o) { o.leash = 0.5; }},
      {"muon", [](Options& o) { o.optimizer = ppo::OptimizerKind::muon; }},
      {"weight decay", [](Options& o) { o.weight_decay = 1; }},
      {"adam eps", [](Options& o) { o.adam_eps = 1e-2; }},
      {"relu", [](Options& o) { o.network.activation = HiddenActivation::relu; }},
      {"silu", [](Options& o) { o.network.activation = HiddenActivation::silu; }},
      {"shared trunk", [](Options& o) { o.network.shared = true, o.network.critic_hidden = {8}; }},
      {"popart", [](Options& o) { o.network.value_head = ValueHeadKind::popart; }},
      {"normalized observations", [](Options& o) { o.network.normalize_obs = true; }},
  };
  return list;
}

Options base() {
  Options o = small();
  o.minibatch = 80;
  o.epochs = 2;
  o.lr = kLr;
  o.adam_eps = kEps;
  o.network.hidden = {24, 16};
  return o;
}

struct Case {
  const char* name;
  EnvSpec spec;
  std::function<void(Options&)> change;
  bool panels;
  bool remembers = false;
};

std::vector<Case> cases() {
  const auto as_it_is = [](Options&) {};
  const auto remembers = [](bool fused) {
    return [fused](Options& o) {
      o.network.memory = 10, o.network.fused_memory = fused, o.sequence = 8;
    };
  };
  const auto shared = [](Options& o) { o.network.memory = 10, o.network.shared = true; };
  const auto picture = [](Options& o) {
    o.network.kind = &find_network("mlp");
    o.network.memory = 10, o.sequence = 8;
  };
  return {{"panels", vectors(), as_it_is, true},
          {"panels, heads with masks", masked_heads(), as_it_is, true},
          {"panels, Gaussian, a critic with inputs of its own", privileged(), as_it_is, true},
          {"lanes, fully connected", pixels(),
           [](Options& o) { o.network.kind = &find_network("mlp"); }, false},
          {"lanes, convolutions", cells(), as_it_is, false},
          {"panels, a memory each of policy and value", privileged(), remembers(true), true, true},
          {"panels, one memory through whole rollouts, heads with masks", masked_heads(), shared,
           true, true},
          {"lanes, a memory behind layers of a picture", pixels(), picture, false, true},
          {"lanes, a memory in ATen", privileged(), remembers(false), false, true}};
}

class Learners : public testing::TestWithParam<size_t> {
 protected:
  Case of() const { return cases()[GetParam()]; }
  Options options(const Setting& setting, bool fused) const {
    Options o = base();
    of().change(o);
    setting.change(o);
    // what is remembered is small, and a policy on it moves a fifth as far: else nothing is clipped
    if (of().remembers && o.clip < base().clip) o.clip /= 5;
    o.fused = fused;
    return o;
  }
};

TEST_P(Learners, compute_the_same_over_whole_updates) {
  at::Tensor plain;
  for (const auto& setting : settings()) {
    // whole sequences, and no leash, where there is a memory
    if (of().remembers && (setting.name == std::string("leash") ||
                           setting.name == std::string("minibatch of one row left")))
      continue;
    // schedules end with the updates
    RandomRollouts fused(of().spec, kRows, options(setting, true), 2, kUpdates);
    RandomRollouts reference(of().spec, kRows, options(setting, false), 1, kUpdates);
    // bytes have no running statistics
    if (setting.name == std::string("normalized observations") &&
        of().spec.observations[0].dtype != DType::f32)
      continue;
    ASSERT_EQ(fused.ppo.policy().panels() != nullptr, of().panels);
    ASSERT_EQ(reference.ppo.policy().panels(), nullptr);
    for (int64_t i = 0; i < kUpdates; ++i) {
      const Batch& batch = fused.collect(i);
      reference.learn(relived(reference, batch));
      fused.learn(batch);
    }
    const std::string where = std::string(of().name) + ", " + setting.name;
    EXPECT_TRUE(close(fused.weights(), reference.weights(), kWeightBound)) << where;
    const auto ours = fused.figures(), theirs = reference.figures();
    ASSERT_EQ(ours.size(), theirs.size());
    for (size_t f = 0; f < ours.size(); ++f) {
      EXPECT_EQ(ours[f].first, theirs[f].first);
      EXPECT_NEAR(ours[f].second, theirs[f].second,
                  kFigureBound * std::max(1.0, std::abs(theirs[f].second)))
          << where << ", " << ours[f].first;
    }
    // a setting that did not show would hold nothing
    if (!plain.defined()) {
      plain = reference.weights();
    } else if (plain.sizes() == reference.weights().sizes()) {
      const double moved = (reference.weights() - plain).abs().max().item<double>();
      EXPECT_GT(moved, 4 * kWeightBound) << where;
    }
  }
}

// a minibatch of rows that only reset their environments has no entropy to be below the floor
TEST_P(Learners, take_rows_that_do_not_count_for_no_policy_without_entropy) {
  for (bool fused : {true, false}) {
    at::Tensor weights[2];
    for (int penalized : {0, 1}) {
      const auto change = [&](Options& o) {
        o.minibatch = 0, o.entropy_floor = 0.1, o.entropy_floor_penalty = 3 * penalized;
      };
      RandomRollouts run(of().spec, kRows, options({"", change}, fused));
      for (int64_t i = 0; i < kUpdates; ++i) {
        const Batch& batch = run.collect(i);
        if (i == 1) batch.is_first.fill_(1);
        run.learn(batch);
        const double entropy = run.figure("loss/entropy");
        if (i == 1) EXPECT_TRUE(std::isnan(entropy)) << entropy;
        else EXPECT_GT(entropy, 0.1);
      }
      weights[penalized] = run.weights();
    }
    EXPECT_TRUE(at::equal(weights[0], weights[1])) << of().name << (fused ? ", fused" : "");
  }
}

TEST(FusedLearner, says_what_threads_do_of_a_minibatch) {
  const auto names = span_names([] {
    RandomRollouts run(pixels(), kRows, base(), /*threads=*/2);
    run.update(1);
  });
  EXPECT_EQ(missing({"advantages", "minibatch", "shard", "forward", "loss", "backward"}, names),
            std::set<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Networks, Learners, testing::Range<size_t>(0, cases().size()));

std::string hash_of(RandomRollouts& run) {
  return state_hash([&](StateVisitor& v) { run.ppo.visit_state(v); });
}

// a checkpoint of one learner, taken up by the other
TEST(LearnerState, is_the_same_under_both) {
  for (const auto& setting : settings()) {
    Options o = base();
    setting.change(o);
    RandomRollouts fused(vectors(), kRows, o);
    o.fused = false;
    RandomRollouts reference(vectors(), kRows, o);
    const CheckpointIdentity identity{.algo = "ppo", .env = "vectors"};
    for (auto [from, to] : {std::pair(&fused, &reference), std::pair(&reference, &fused)}) {
      from->update(1);
      const auto path = save_checkpoint(test_folder() + "/learners", identity,
                                        [&](auto& v) { from->ppo.visit_state(v); });
      load_checkpoint(path, identity, [&](auto& v) { to->ppo.visit_state(v); });
      EXPECT_EQ(hash_of(*to), hash_of(*from)) << setting.name;
    }
  }
}

}  // namespace
}  // namespace maglev
