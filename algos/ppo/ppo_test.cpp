#include "algos/ppo/ppo.h"

#include <cmath>

#include <torch/torch.h>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "engine/data/rollout.h"
#include "engine/host/machine.h"
#include "engine/nn/panel_network.h"
#include "kernels/policy/distribution_op.h"
#include "tests/close.h"

namespace maglev {
namespace {

using ppo::Options;
using ppo::Ppo;

EnvSpec vectors() {
  return {.observations = {{.name = "vector", .shape = {5}}}, .action = {.heads = {3}}};
}
EnvSpec masked_heads() {
  return {.observations = {{.name = "vector", .shape = {5}}},
          .action = {.heads = {4, 3}, .masked = true}};
}
EnvSpec one_continuous() {
  return {.observations = {{.name = "vector", .shape = {5}}}, .action = {.low = {-1}, .high = {1}}};
}
// a window of 11x11 cells of 4 bits that the policy and the critic see in palettes of their own
EnvSpec cells() {
  CellCoding coding{.bits = 4, .grid = {11, 11}, .channels = 7};
  for (int code = 0; code < 16; ++code)
    for (int c = 0; c < 7; ++c)
      coding.policy.push_back(code == c), coding.critic.push_back(code == 7 + c);
  return {.observations = {{.name = "window", .dtype = DType::u8, .shape = {61}, .cells = coding}},
          .action = {.heads = {6}}};
}

Options small() {
  Options o;
  o.rollout = 16;
  o.lr = 1e-2;
  o.network.hidden = {24, 16};
  o.network.channels = {4, 6};
  return o;
}

/// PPO on rollouts of random observations and rewards, whose episodes end and begin as the store's
/// do.
class Learner {
 public:
  Learner(const EnvSpec& spec, int64_t rows, const Options& options, int threads = 1)
      : spec_((claim_threads(), spec)),
        pool_(threads),
        metrics_(at::kCPU),
        ppo(options,
            {.spec = spec, .rows = rows, .total_steps = 1'000'000, .seed = 3, .pool = &pool_}),
        store(spec, {.T = options.rollout, .rows = rows, .block_rows = ppo.plan().block_rows},
              ppo.plan().columns, at::kCPU) {}

  /// Rollout number `i`: the same for the same number; only what act writes depends on the weights.
  const Batch& collect(int64_t i) {
    torch::manual_seed(uint64_t(i));
    const Batch& batch = store.batch();
    for (auto obs : batch.obs) obs.scalar_type() == at::kByte ? obs.random_(0, 256) : obs.normal_();
    if (auto mask = batch.mask; mask.defined()) {
      mask.copy_(at::rand(mask.sizes()) < 0.5);
      for (int64_t h = 0, begin = 0; h < spec_.action.dims();
           begin += spec_.action.heads[size_t(h++)])
        mask.select(2, begin).fill_(1);
    }
    end_episodes(batch);
    Carry carry;
    for (int64_t t = 0; t < store.shape().T; ++t)
      ppo.act(store.row(t), carry, ActMode::sample, {.seed = 3, .step = i * store.shape().T + t});
    return batch;
  }
  void update(int64_t i) { ppo.update(collect(i), metrics_); }
  double figure(const std::string& name) {
    for (auto& [key, value] : metrics_.take())
      if (key == name) return value;
    throw Error("no figure " + name);
  }
  at::Tensor weights() { return ppo.params().data().clone(); }
  int64_t rows() const { return store.shape().T * store.shape().rows; }

 private:
  void end_episodes(const Batch& batch) {
    auto chance = at::rand(batch.reward.sizes());
    for (auto flags : {batch.terminated, batch.truncated, batch.is_first}) flags.zero_();
    batch.reward.copy_(at::randn(batch.reward.sizes()));
    for (int64_t n = 0; n < store.shape().rows; ++n)
      for (int64_t t = 0; t < store.shape().T; ++t) {
        const float c = chance[t][n].item<float>();
        if (c > 0.15f) continue;
        (c < 0.08f ? batch.terminated : batch.truncated)[t][n] = 1;
        if (++t == store.shape().T) break;
        batch.reward[t][n] = 0;
        batch.is_first[t + 1][n] = 1;
      }
  }

  EnvSpec spec_;
  ThreadPool pool_;
  Metrics metrics_;

 public:
  Ppo ppo;
  Rollout store;
};

struct Lookup : StateVisitor {
  std::string wanted;
  at::Tensor found;
  void visit_tensor(const std::string& name, at::Tensor& value) override {
    if (name == wanted) found = value;
  }
  void visit_integer(const std::string&, int64_t&) override {}
  void visit_real(const std::string&, double&) override {}
  void visit_text(const std::string&, std::string&) override {}
};

at::Tensor state(Ppo& ppo, const std::string& name) {
  Lookup lookup;
  lookup.wanted = name;
  ppo.visit_state(lookup);
  return lookup.found;
}

at::Tensor all_rows(const Learner& learner) { return at::randperm(learner.rows()); }

// act saw the rows in blocks by time, learning sees them shuffled in shards of other sizes: on
// panels a row's numbers are the same, from a library's products within their rounding
TEST(Ppo, a_policy_that_did_not_move_has_a_ratio_of_1) {
  for (const auto& spec : {vectors(), masked_heads(), one_continuous(), cells()})
    for (int64_t rows : {1, 3, 8, 33, 100}) {
      auto options = small();
      options.lr = 0;
      Learner learner(spec, rows, options);
      const bool panels = PanelNetwork::obstacle(learner.ppo.network(), spec).empty();
      EXPECT_EQ(panels, spec.observations[0].name == "vector");
      // a log-probability moves by that of the action's logit and of the largest one
      const double rounding =
          panels ? 0 : 2 * Tolerance::of_sums(sums_of(learner.ppo.network())).share;
      const Batch& batch = learner.collect(1);
      learner.ppo.prepare(batch);
      auto order = all_rows(learner);
      const int64_t part = learner.rows() * 2 / 3 + 1;
      for (const auto& index :
           {order, order.narrow(0, 0, part), order.narrow(0, part, learner.rows() - part)}) {
        learner.ppo.minibatch_step(batch, index);
        auto figures = learner.ppo.figures();
        EXPECT_LE(figures[kPpoRatioDeviation].item<float>(), rounding)
            << spec.observations[0].name << " rows " << rows;
        EXPECT_LE(std::abs(figures[kPpoApproxKl].item<float>()), rounding);
      }
    }
}

TEST(Ppo, the_number_of_threads_changes_no_weight) {
  for (const auto& spec : {vectors(), cells()}) {
    auto options = small();
    options.minibatch = 500;
    options.shard_rows = 64;
    options.epochs = 2;
    at::Tensor one;
    for (int threads : {1, 2, 4}) {
      Learner learner(spec, 64, options, threads);
      for (int64_t i = 0; i < 3; ++i) learner.update(i);
      if (threads == 1) one = learner.weights();
      EXPECT_TRUE(close(learner.weights(), one, 0))
          << threads << " threads, " << spec.observations[0].name;
    }
  }
}

TEST(Ppo, how_a_minibatch_is_cut_into_shards_changes_only_rounding) {
  at::Tensor whole, norm;
  for (int64_t shard : {1000, 512, 100, 64}) {
    auto options = small();
    options.shard_rows = shard;
    Learner learner(vectors(), 64, options);
    const Batch& batch = learner.collect(1);
    learner.ppo.prepare(batch);
    learner.ppo.minibatch_step(batch, at::arange(learner.rows()));
    if (!whole.defined()) whole = learner.weights(), norm = learner.ppo.grad_norm().clone();
    EXPECT_TRUE(close(learner.weights(), whole, 1e-5)) << "shards of " << shard;
    EXPECT_TRUE(close(learner.ppo.grad_norm(), norm, 1e-6)) << "shards of " << shard;
  }
}

TEST(Ppo, nothing_moves_behind_the_minibatch_that_target_kl_stops_at) {
  auto options = small();
  options.lr = 0.05;
  options.target_kl = 1e-3;
  Learner learner(vectors(), 16, options);
  const Batch& batch = learner.collect(1);
  learner.ppo.prepare(batch);
  const auto start = learner.weights();
  int64_t taken = 0;
  while (learner.ppo.stopped().item<float>() == 0) {
    ASSERT_LT(++taken, 50) << "never stopped";
    learner.ppo.minibatch_step(batch, all_rows(learner));
  }
  EXPECT_GT(learner.ppo.figures()[kPpoApproxKl].item<float>(), 1.5e-3);
  EXPECT_EQ(state(learner.ppo, "optimizer.steps").item<float>(), taken - 1);
  const auto stopped = learner.weights();
  EXPECT_FALSE(at::equal(stopped, start));
  for (int i = 0; i < 3; ++i) learner.ppo.minibatch_step(batch, all_rows(learner));
  EXPECT_TRUE(close(learner.weights(), stopped, 0));
  learner.ppo.prepare(learner.collect(2));
  EXPECT_EQ(learner.ppo.stopped().item<float>(), 0) << "the next update begins afresh";
}

TEST(Ppo, an_entropy_floor_pushes_back_below_it_and_is_silent_above) {
  auto run = [](double floor, double penalty) {
    auto options = small();
    options.entropy_floor = floor;
    options.entropy_floor_penalty = penalty;
    Learner learner(vectors(), 16, options);
    for (int64_t i = 0; i < 6; ++i) learner.update(i);
    return std::pair(learner.weights(), learner.figure("loss/entropy"));
  };
  auto [free_weights, free_entropy] = run(0, 0);
  auto [silent_weights, silent_entropy] = run(0.01, 5);  // never reached
  auto [pushed_weights, pushed_entropy] = run(2, 5);     // above log(3), the most there is
  EXPECT_TRUE(close(silent_weights, free_weights, 0));
  EXPECT_GT(pushed_entropy, free_entropy + 0.005);
}

TEST(Ppo, rows_that_only_reset_have_no_influence) {
  auto weights = [](bool disturbed) {
    Learner learner(vectors(), 16, small());
    const Batch& batch = learner.collect(1);
    if (disturbed) {
      auto only_resets = batch.is_first.narrow(0, 1, 16) == 1;
      EXPECT_GT(only_resets.sum().item<int64_t>(), 10);
      auto terminal =
          at::logical_and(only_resets.narrow(0, 1, 15), batch.terminated.narrow(0, 0, 15) == 1);
      auto shift = [](const at::Tensor& column, const at::Tensor& where, double by) {
        column.copy_(at::where(where, column + by, column));
      };
      shift(batch.reward, only_resets, 50);
      shift(batch.extra[0], only_resets, 0.5);
      batch.action.copy_(at::where(only_resets.unsqueeze(2), (batch.action + 1) % 3, batch.action));
      // behind a truncation the value bootstraps; behind a termination nothing may
      shift(batch.extra[1].narrow(0, 1, 15), terminal, 50);
      shift(batch.obs[0].narrow(0, 1, 15), terminal.unsqueeze(2), 1);
    }
    learner.ppo.prepare(batch);
    for (int i = 0; i < 4; ++i) learner.ppo.minibatch_step(batch, at::arange(i * 64, (i + 1) * 64));
    return learner.weights();
  };
  EXPECT_TRUE(close(weights(true), weights(false), 0));
}

TEST(Ppo, a_last_short_minibatch_is_learnt_from_too) {
  auto options = small();
  options.minibatch = 100;  // of 256 rows: 100, 100, 56
  Learner learner(vectors(), 16, options);
  learner.update(1);
  EXPECT_EQ(state(learner.ppo, "optimizer.steps").item<float>(), 3 * options.epochs);
}

TEST(Ppo, a_minibatch_beyond_the_rollout_is_refused) {
  auto options = small();
  options.minibatch = 16 * 4 + 1;
  EXPECT_THROW(Learner(vectors(), 4, options), Error);
}

TEST(Ppo, advantages_of_a_whole_batch_are_standardised_over_rows_that_count) {
  auto options = small();
  options.normalize_advantage = "batch";
  Learner learner(vectors(), 16, options);
  const Batch& batch = learner.collect(1);
  learner.ppo.prepare(batch);
  auto counted = learner.ppo.advantage().masked_select(batch.is_first.narrow(0, 1, 16) == 0);
  EXPECT_LT(counted.size(0), learner.rows());
  EXPECT_TRUE(close(counted.mean(), at::zeros({}), 1e-6));
  EXPECT_TRUE(close(counted.std(), at::ones({}), 1e-5));
}

TEST(Ppo, the_value_loss_takes_each_rows_larger_error_when_asked) {
  auto options = small();
  options.value_clip = 0.05;
  for (std::string kind : {"clipped", "max"}) {
    options.value_clip_loss = kind;
    Learner learner(vectors(), 16, options);
    const Batch& batch = learner.collect(1);
    learner.ppo.prepare(batch);
    for (int i = 0; i < 8; ++i) learner.ppo.minibatch_step(batch, all_rows(learner));
    at::NoGradGuard no_grad;
    auto value =
        learner.ppo.network().forward({batch.obs[0].narrow(0, 0, 16).flatten(0, 1)}, {}).value;
    auto old = batch.extra[1].narrow(0, 0, 16).flatten(), target = learner.ppo.returns().flatten();
    auto error = (old + at::clamp(value - old, -0.05, 0.05) - target).square();
    if (kind == "max") error = at::maximum(error, (value - target).square());
    learner.ppo.minibatch_step(batch, all_rows(learner));
    auto expected = error.masked_select(batch.is_first.narrow(0, 1, 16).flatten() == 0).mean();
    EXPECT_TRUE(close(learner.ppo.figures()[kPpoValue], expected, 1e-5)) << kind;
  }
}

TEST(Ppo, popart_rescales_the_optimisers_moments_with_its_weights_and_keeps_values) {
  auto options = small();
  options.network.value_head = "popart";
  Learner learner(vectors(), 16, options);
  learner.update(1);
  const Batch& batch = learner.collect(2);
  batch.reward.mul_(30);
  at::NoGradGuard no_grad;
  auto values = [&] {
    auto out = learner.ppo.network().forward({batch.obs[0][0]}, {});
    return learner.ppo.network().value_head().denormalize(out.value);
  };
  const auto before = values(), weight = state(learner.ppo, "network.value_head.weight").clone();
  const auto first = state(learner.ppo, "optimizer.first_moment").clone(),
             second = state(learner.ppo, "optimizer.second_moment").clone();
  learner.ppo.prepare(batch);
  EXPECT_TRUE(close(values(), before, 1e-4));
  const double scale =
      (state(learner.ppo, "network.value_head.weight") / weight).mean().item<double>();
  EXPECT_LT(scale, 0.5);
  // the head's parameters are the last ones of the flat buffer
  const int64_t head = weight.numel() + 1, rest = first.numel() - head;
  auto scaled = [&](const at::Tensor& moment, double by) {
    return at::cat({moment.narrow(0, 0, rest), moment.narrow(0, rest, head) * by});
  };
  EXPECT_TRUE(close(state(learner.ppo, "optimizer.first_moment"), scaled(first, scale), 1e-6));
  EXPECT_TRUE(
      close(state(learner.ppo, "optimizer.second_moment"), scaled(second, scale * scale), 1e-6));
}

}  // namespace
}  // namespace maglev
