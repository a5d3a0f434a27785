#include "algos/ppo/ppo.h"

#include <cmath>
#include <functional>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <gtest/gtest.h>

#include "algos/ppo/panels.h"
#include "algos/ppo/sizes.h"
#include "base/core/error.h"
#include "base/simd/pairs.h"
#include "engine/device/tolerance.h"
#include "engine/nn/panel_network.h"
#include "tests/close.h"
#include "tests/limited_memory.h"
#include "tests/random_rollouts.h"

namespace maglev {
namespace {

using ppo::Options;
using ppo::Ppo;

struct Lookup : PartialVisitor {
  std::string wanted;
  at::Tensor found;
  void visit_tensor(const std::string& name, at::Tensor& value) override {
    if (name == wanted) found = value;
  }
};

at::Tensor state(Ppo& ppo, const std::string& name) {
  Lookup lookup;
  lookup.wanted = name;
  ppo.visit_state(lookup);
  return lookup.found;
}

at::Tensor all_rows(const RandomRollouts& rollouts) { return at::randperm(rollouts.rows()); }

// act saw the rows in blocks by time, learning sees them shuffled in shards of other sizes: on
// panels a row's numbers are the same, from a library's products within their rounding
TEST(Ppo, a_policy_that_did_not_move_has_a_ratio_of_1) {
  for (const auto& spec : {vectors(), masked_heads(), one_continuous(), cells()})
    for (int64_t rows : {1, 3, 8, 33, 100}) {
      auto options = small();
      options.lr = 0;
      RandomRollouts rollouts(spec, rows, options);
      const ActorCritic& network = rollouts.ppo.policy().network();
      const bool panels = PanelNetwork::obstacle(network, spec).empty();
      EXPECT_EQ(panels, spec.observations[0].name == "vector");
      // a log-probability moves by that of the action's logit and of the largest one
      const double rounding = panels ? 0 : 2 * Tolerance::of_sums(sums_of(network)).share;
      const Batch& batch = rollouts.collect(1);
      rollouts.learner().prepare(batch);
      auto order = all_rows(rollouts);
      const int64_t part = rollouts.rows() * 2 / 3 + 1;
      for (const auto& index :
           {order, order.narrow(0, 0, part), order.narrow(0, part, rollouts.rows() - part)}) {
        rollouts.learner().minibatch_step(batch, index);
        auto figures = rollouts.learner().results().figures;
        EXPECT_LE(figures[kPpoRatioDeviation].item<float>(), rounding)
            << spec.observations[0].name << " rows " << rows;
        EXPECT_LE(std::abs(figures[kPpoApproxKl].item<float>()), rounding);
      }
    }
}

// what is remembered goes on from what acting wrote down, wherever a sequence begins
TEST(Ppo, with_a_memory_the_ratio_is_1_before_each_update) {
  for (const auto& spec : {vectors(), masked_heads(), privileged()})
    for (const bool shared : {false, true})
      for (const int64_t rows : {1, 8, 70}) {
        auto options = small();
        options.network.memory = 20, options.network.shared = shared, options.sequence = 4;
        RandomRollouts rollouts(spec, rows, options);
        ASSERT_TRUE(rollouts.ppo.policy().panels());
        for (int64_t i = 0; i < 3; ++i) {
          const Batch& batch = rollouts.collect(i);
          rollouts.learner().prepare(batch);
          rollouts.learner().minibatch_step(
              batch, ppo::rows_of_sequences(at::randperm(4 * rows), 4, rows));
          EXPECT_EQ(rollouts.learner().results().figures[kPpoRatioDeviation].item<float>(), 0)
              << rows << " rows, rollout " << i;
          rollouts.learn(batch);
        }
      }
}

// what is rounded of the weights follows every step: else acting would not say what learning does
TEST(Ppo, in_pairs_of_bfloat16_the_ratio_is_1_before_each_update) {
  if (!pair_products_available()) GTEST_SKIP() << "this processor has no products of pairs";
  for (const auto& spec : {vectors(), masked_heads(), one_continuous(), privileged()}) {
    auto options = small();
    RandomRollouts rollouts(spec, 33, options, 1, 1'000'000, Precision::bf16);
    ASSERT_TRUE(rollouts.ppo.policy().panels());
    for (int64_t i = 0; i < 3; ++i) {
      const Batch& batch = rollouts.collect(i);
      rollouts.learner().prepare(batch);
      rollouts.learner().minibatch_step(batch, all_rows(rollouts));
      EXPECT_EQ(rollouts.learner().results().figures[kPpoRatioDeviation].item<float>(), 0) << i;
      rollouts.learn(batch);
    }
  }
}

TEST(Ppo, in_pairs_of_bfloat16_a_gradient_is_that_of_fp32_but_for_rounding) {
  if (!pair_products_available()) GTEST_SKIP() << "this processor has no products of pairs";
  for (const auto& spec : {vectors(), one_continuous(), privileged()}) {
    auto options = small();
    options.network.hidden = {64, 48};
    RandomRollouts exact(spec, 64, options);
    RandomRollouts pairs(spec, 64, options, 1, 1'000'000, Precision::bf16);
    // the same actions, each with what its own networks, by ATen, say of them: ratios near 1
    const Batch& one = exact.collect(1);
    const Batch& other = relived(pairs, one);
    exact.learner().prepare(one), pairs.learner().prepare(other);
    exact.learner().minibatch_step(one, at::arange(exact.rows()));
    pairs.learner().minibatch_step(other, at::arange(pairs.rows()));
    const auto expected = state(exact.ppo, "optimizer.first_moment");
    const auto came = state(pairs.ppo, "optimizer.first_moment");
    EXPECT_FALSE(at::equal(expected, came));
    // a rounding of every term on the way through a stack and back, parameter by parameter
    int64_t begin = 0;
    for (const auto& p : exact.ppo.policy().network().named_parameters()) {
      const int64_t count = p.value().numel();
      EXPECT_LE(share_used(expected.narrow(0, begin, count), came.narrow(0, begin, count),
                           Tolerance::of_sums(8, kRoundBf16)),
                1)
          << p.key();
      begin += count;
    }
    EXPECT_EQ(begin, expected.numel());
  }
}

TEST(Ppo, in_pairs_of_bfloat16_the_number_of_threads_changes_no_weight) {
  if (!pair_products_available()) GTEST_SKIP() << "this processor has no products of pairs";
  at::Tensor one;
  for (int threads : {1, 3}) {
    auto options = small();
    options.minibatch = 500, options.epochs = 2;
    RandomRollouts rollouts(vectors(), 64, options, threads, 1'000'000, Precision::bf16);
    for (int64_t i = 0; i < 3; ++i) rollouts.update(i);
    if (threads == 1) one = rollouts.weights();
    EXPECT_TRUE(at::equal(rollouts.weights(), one));
  }
}

// threads of ours would launch on streams of their own, and a capture sees one: a small network's
// minibatch is cut for the device's blocks, any other is taken as a whole
TEST(Ppo, on_a_gpu_gives_a_minibatch_and_a_time_step_to_one_thread) {
  for (const auto& spec : {vectors(), cells()}) {
    auto options = small();
    options.rollout = 64, options.minibatch = 1000, options.shard_rows = 64;
    ThreadPool pool(3);
    const AlgoContext context{
        .spec = spec, .rows = 500, .device = at::Device(at::kCUDA, 0), .pool = &pool};
    const auto network =
        make_network(options.network, ppo::network_context(context), Initializer::none());
    const bool panels = ppo::Panels::suit(options, context, *network);
    EXPECT_EQ(panels, spec.observations[0].name == "vector");
    const int64_t shard = ppo::shard_rows(options, context, *network);
    const int64_t lanes = ppo::lane_count(context, 1000, shard);
    EXPECT_EQ(shard, panels ? 32 : 1000);
    EXPECT_EQ(lanes, panels ? 32 : 1);
    EXPECT_EQ(ppo::block_rows(options, context, *network), 500);
    const auto parts = ppo::planned_memory(options, context);
    EXPECT_EQ(parts[1].name, "gradients");
    EXPECT_EQ(3 * parts[1].bytes, lanes * parts[0].bytes) << "a buffer of gradients a lane";
  }
}

// Atari's network, which takes long: few rows are shared, and shards that leave threads without one
// are told
TEST(Ppo, few_rows_of_a_large_network_are_shared_by_threads) {
  ppo::Options options;
  options.minibatch = 256, options.rollout = 128;
  options.network.shared = true, options.network.hidden = {512};
  for (const auto& [name, value] : {std::pair{"network.kind", "cnn"},
                                    {"network.activation", "relu"},
                                    {"network.cnn.channels", "[32, 64, 64]"},
                                    {"network.cnn.kernels", "[8, 4, 3]"},
                                    {"network.cnn.strides", "[4, 2, 1]"},
                                    {"network.cnn.paddings", "[0, 0, 0]"}})
    set(options, name, value);
  const EnvSpec spec{.observations = {{.name = "image", .dtype = DType::u8, .shape = {84, 84, 4}}},
                     .action = {.heads = {4}}};
  ThreadPool pool(8);
  AlgoContext context{.spec = spec, .rows = 8, .pool = &pool};
  const auto plan_of = [&] { return ppo::planned_data(options, context); };
  EXPECT_EQ(plan_of().block_of(8, 1), 4);
  EXPECT_EQ(plan_of().for_more_threads, "ppo.shard_rows=32");
  // here this network has no rounded weights of its own, and each call would make them
  context.precision = Precision::fp16;
  EXPECT_EQ(plan_of().block_of(8, 1), 64);
  context.precision = Precision::fp32;
  options.shard_rows = 32;
  EXPECT_EQ(plan_of().for_more_threads, "");

  // whole sequences are as short as shards get
  options.shard_rows = 0, options.network.memory = 16, options.sequence = 128;
  EXPECT_EQ(plan_of().for_more_threads, "");
  options.network.memory = 0, options.sequence = 0;

  // one thread has all shards, and on panels a shard is a panel
  ThreadPool alone(1);
  context.pool = &alone;
  EXPECT_EQ(plan_of().for_more_threads, "");
  context.pool = &pool, context.spec = vectors();
  options.network = ppo::Options().network;
  EXPECT_EQ(plan_of().for_more_threads, "");
  EXPECT_EQ(plan_of().block_of(8, 1), 64);
}

TEST(Ppo, the_number_of_threads_changes_no_weight) {
  for (const auto& spec : {vectors(), cells()}) {
    auto options = small();
    options.minibatch = 500;
    options.shard_rows = 64;
    options.epochs = 2;
    at::Tensor one;
    for (int threads : {1, 2, 4}) {
      RandomRollouts rollouts(spec, 64, options, threads);
      for (int64_t i = 0; i < 3; ++i) rollouts.update(i);
      if (threads == 1) one = rollouts.weights();
      EXPECT_TRUE(close(rollouts.weights(), one, 0))
          << threads << " threads, " << spec.observations[0].name;
    }
  }
}

// convolutions, for on panels shards have 64 rows whatever is asked. The moment is a tenth of the
// gradient, whose norm is at most 0.5 and whose components are sums over 1024 rows
TEST(Ppo, how_a_minibatch_is_cut_into_shards_changes_only_rounding) {
  at::Tensor whole, norm;
  for (int64_t shard : {512, 300, 100, 64}) {
    auto options = small();
    options.shard_rows = shard;
    RandomRollouts rollouts(cells(), 64, options);
    const AlgoContext context{.spec = cells(), .rows = 64};
    ASSERT_EQ(shard_rows(options, context, rollouts.ppo.policy().network()), shard);
    const Batch& batch = rollouts.collect(1);
    rollouts.learner().prepare(batch);
    rollouts.learner().minibatch_step(batch, at::arange(rollouts.rows()));
    const auto moment = state(rollouts.ppo, "optimizer.first_moment").clone(),
               length = rollouts.learner().results().grad_norm.clone();
    if (!whole.defined()) whole = moment, norm = length;
    EXPECT_TRUE(close(moment, whole, 1e-6)) << "shards of " << shard;
    EXPECT_TRUE(close(length, norm, 1e-6)) << "shards of " << shard;
  }
}

TEST(Ppo, a_minibatch_that_does_not_fit_is_learned_from_in_halves) {
  const auto step = [](int64_t bytes) -> Limited {
    auto options = small();
    options.shard_rows = 512;
    RandomRollouts rollouts(cells(), 64, options);
    const Batch& batch = rollouts.collect(1);
    rollouts.learner().prepare(batch);
    const auto index = at::arange(rollouts.rows());
    const LimitedMemory memory(bytes);
    rollouts.learner().minibatch_step(batch, index);
    return {state(rollouts.ppo, "optimizer.first_moment").clone(), memory.taken(),
            rollouts.ppo.note()};
  };
  expect_parts_where_memory_is_short(step, 1e-6, "learned from 256 rows at a time");
}

TEST(Ppo, says_where_actions_hardly_lie_within_bounds) {
  const auto note = [](float low, float high, double log_std = 0) {
    EnvSpec spec = vectors();
    const float scale = float(std::exp(log_std));
    spec.action = {.low = {-scale, low}, .high = {scale, high}};
    auto options = small();
    options.network.log_std = log_std;
    return RandomRollouts(spec, 16, options).ppo.note();
  };
  for (const auto& [low, high] : {std::pair{-1.f, 1.f}, {-2.f, 2.f}, {0.f, 1.f}, {-0.5f, 3.f}})
    EXPECT_EQ(note(low, high), "") << low << " to " << high;
  for (const auto& [low, high] :
       {std::pair{100.f, 200.f}, {-9.f, -2.f}, {-1e-3f, 1e-3f}, {-500.f, 500.f}})
    EXPECT_NE(note(low, high).find("of dimension 1"), std::string::npos) << low << " to " << high;
  EXPECT_EQ(note(-500, 500, /*log_std=*/5), "");
}

TEST(Ppo, the_last_update_of_a_schedule_to_nothing_still_learns) {
  auto options = small();
  options.lr_end = 0;
  RandomRollouts rollouts(vectors(), 16, options, /*threads=*/1, /*updates=*/1);
  const auto before = rollouts.weights();
  rollouts.learn(rollouts.collect(0));
  EXPECT_GT((rollouts.weights() - before).abs().max().item<float>(), 0);
}

TEST(Ppo, nothing_moves_behind_the_minibatch_that_target_kl_stops_at) {
  auto options = small();
  options.lr = 0.05;
  options.target_kl = 1e-3;
  RandomRollouts rollouts(vectors(), 16, options);
  const Batch& batch = rollouts.collect(1);
  rollouts.learner().prepare(batch);
  const auto start = rollouts.weights();
  int64_t taken = 0;
  while (rollouts.learner().results().stopped.item<float>() == 0) {
    ASSERT_LT(++taken, 50) << "never stopped";
    rollouts.learner().minibatch_step(batch, all_rows(rollouts));
  }
  EXPECT_GT(rollouts.learner().results().figures[kPpoApproxKl].item<float>(), 1.5e-3);
  EXPECT_EQ(state(rollouts.ppo, "optimizer.steps").item<float>(), taken - 1);
  const auto stopped = rollouts.weights();
  EXPECT_FALSE(at::equal(stopped, start));
  for (int i = 0; i < 3; ++i) rollouts.learner().minibatch_step(batch, all_rows(rollouts));
  EXPECT_TRUE(close(rollouts.weights(), stopped, 0));
  rollouts.learner().prepare(rollouts.collect(2));
  EXPECT_EQ(rollouts.learner().results().stopped.item<float>(), 0)
      << "the next update begins afresh";
}

TEST(Ppo, an_entropy_floor_pushes_back_below_it_and_is_silent_above) {
  auto run = [](double floor, double penalty) {
    auto options = small();
    options.entropy_floor = floor;
    options.entropy_floor_penalty = penalty;
    RandomRollouts rollouts(vectors(), 16, options);
    for (int64_t i = 0; i < 6; ++i) rollouts.update(i);
    return std::pair(rollouts.weights(), rollouts.figure("loss/entropy"));
  };
  auto [free_weights, free_entropy] = run(0, 0);
  auto [silent_weights, silent_entropy] = run(0.01, 5);  // never reached
  auto [pushed_weights, pushed_entropy] = run(2, 5);     // above log(3), the most there is
  EXPECT_TRUE(close(silent_weights, free_weights, 0));
  EXPECT_GT(pushed_entropy, free_entropy + 0.005);
}

TEST(Ppo, the_weight_of_entropy_stays_at_its_end_and_the_floor_goes_until_the_run_ends) {
  auto run = [](int64_t updates, const std::function<void(ppo::Options&)>& change) {
    auto options = small();
    change(options);
    RandomRollouts rollouts(vectors(), 16, options, 1, updates);
    for (int64_t i = 0; i < updates; ++i) rollouts.update(i);
    return rollouts.weights();
  };
  const auto plain = [](ppo::Options&) {};
  const auto weight = [](double until) {
    return [=](ppo::Options& o) { o.entropy = 5, o.entropy_end = 0, o.entropy_until = until; };
  };
  const auto floor = [](double nats, double until) {
    return [=](ppo::Options& o) {
      o.entropy_floor = nats, o.entropy_floor_penalty = 5, o.entropy_until = until;
    };
  };
  // the second of two updates begins at half of the run
  EXPECT_TRUE(close(run(2, weight(0.25)), run(2, weight(0.5)), 0)) << "at its end in both";
  EXPECT_FALSE(close(run(2, weight(1)), run(2, weight(0.5)), 0));
  EXPECT_FALSE(close(run(1, weight(0.25)), run(1, plain), 0)) << "whole in the first update";
  EXPECT_TRUE(close(run(2, floor(9, 0.999)), run(2, floor(9, 0.6)), 0)) << "whole at half";
  // 2 nats are above any entropy here, the 1 that is left of them at half is below
  EXPECT_FALSE(close(run(2, floor(2, 1e-6)), run(2, floor(2, 1)), 0));
  EXPECT_TRUE(close(run(2, floor(2, 1e-6)), run(2, floor(1.99, 1e-6)), 0));
}

TEST(Ppo, rows_that_only_reset_have_no_influence) {
  auto weights = [](bool disturbed) {
    RandomRollouts rollouts(vectors(), 16, small());
    const Batch& batch = rollouts.collect(1);
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
    rollouts.learner().prepare(batch);
    for (int i = 0; i < 4; ++i)
      rollouts.learner().minibatch_step(batch, at::arange(i * 64, (i + 1) * 64));
    return rollouts.weights();
  };
  EXPECT_TRUE(close(weights(true), weights(false), 0));
}

TEST(Ppo, a_last_short_minibatch_is_learnt_from_too) {
  auto options = small();
  options.minibatch = 100;  // of 256 rows: 100, 100, 56
  RandomRollouts rollouts(vectors(), 16, options);
  rollouts.update(1);
  EXPECT_EQ(state(rollouts.ppo, "optimizer.steps").item<float>(), 3 * options.epochs);
}

TEST(Ppo, a_minibatch_beyond_the_rollout_is_refused) {
  auto options = small();
  options.minibatch = 16 * 4 + 1;
  for (bool fused : {true, false}) {
    options.fused = fused;
    EXPECT_THROW(RandomRollouts(vectors(), 4, options), Error);
  }
}

TEST(Ppo, advantages_of_a_whole_batch_are_standardised_over_rows_that_count) {
  auto options = small();
  options.normalize_advantage = ppo::AdvantageNorm::batch;
  RandomRollouts rollouts(vectors(), 16, options);
  const Batch& batch = rollouts.collect(1);
  rollouts.learner().prepare(batch);
  auto counted =
      rollouts.learner().results().advantage.masked_select(batch.is_first.narrow(0, 1, 16) == 0);
  EXPECT_LT(counted.size(0), rollouts.rows());
  EXPECT_TRUE(close(counted.mean(), at::zeros({}), 1e-6));
  EXPECT_TRUE(close(counted.std(), at::ones({}), 1e-5));
}

TEST(Ppo, the_value_loss_takes_each_rows_larger_error_when_asked) {
  auto options = small();
  options.value_clip = 0.05;
  for (auto kind : {ppo::ValueClipLoss::clipped, ppo::ValueClipLoss::max}) {
    options.value_clip_loss = kind;
    RandomRollouts rollouts(vectors(), 16, options);
    const Batch& batch = rollouts.collect(1);
    rollouts.learner().prepare(batch);
    for (int i = 0; i < 8; ++i) rollouts.learner().minibatch_step(batch, all_rows(rollouts));
    at::NoGradGuard no_grad;
    auto value = rollouts.ppo.policy()
                     .network()
                     .forward({batch.obs[0].narrow(0, 0, 16).flatten(0, 1)}, {})
                     .value;
    auto old = batch.extra[1].narrow(0, 0, 16).flatten(),
         target = rollouts.learner().results().returns.flatten();
    auto error = (old + at::clamp(value - old, -0.05, 0.05) - target).square();
    if (kind == ppo::ValueClipLoss::max) error = at::maximum(error, (value - target).square());
    rollouts.learner().minibatch_step(batch, all_rows(rollouts));
    auto expected = error.masked_select(batch.is_first.narrow(0, 1, 16).flatten() == 0).mean();
    EXPECT_TRUE(close(rollouts.learner().results().figures[kPpoValue], expected, 1e-5))
        << name_of(kind);
  }
}

TEST(Ppo, popart_rescales_the_optimisers_moments_with_its_weights_and_keeps_values) {
  auto options = small();
  options.network.value_head = ValueHeadKind::popart;
  RandomRollouts rollouts(vectors(), 16, options);
  rollouts.update(1);
  const Batch& batch = rollouts.collect(2);
  batch.reward.mul_(30);
  at::NoGradGuard no_grad;
  auto values = [&] {
    auto out = rollouts.ppo.policy().network().forward({batch.obs[0][0]}, {});
    return rollouts.ppo.policy().network().value_head().denormalize(out.value);
  };
  const auto before = values(), weight = state(rollouts.ppo, "network.value_head.weight").clone();
  const auto first = state(rollouts.ppo, "optimizer.first_moment").clone(),
             second = state(rollouts.ppo, "optimizer.second_moment").clone();
  rollouts.learner().prepare(batch);
  EXPECT_TRUE(close(values(), before, 1e-4));
  const double scale =
      (state(rollouts.ppo, "network.value_head.weight") / weight).mean().item<double>();
  EXPECT_LT(scale, 0.5);
  // the head's parameters are the last ones of the flat buffer
  const int64_t head = weight.numel() + 1, rest = first.numel() - head;
  auto scaled = [&](const at::Tensor& moment, double by) {
    return at::cat({moment.narrow(0, 0, rest), moment.narrow(0, rest, head) * by});
  };
  EXPECT_TRUE(close(state(rollouts.ppo, "optimizer.first_moment"), scaled(first, scale), 1e-6));
  EXPECT_TRUE(
      close(state(rollouts.ppo, "optimizer.second_moment"), scaled(second, scale * scale), 1e-6));
}

}  // namespace
}  // namespace maglev
