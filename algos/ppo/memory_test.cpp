// PPO whose network remembers: what is learned from is what was acted by.

#include <cmath>
#include <functional>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <gtest/gtest.h>

#include "algos/ppo/sizes.h"
#include "kernels/gru_scan/gru_scan.h"
#include "tests/close.h"
#include "tests/errors.h"
#include "tests/random_rollouts.h"

namespace maglev {
namespace {

using ppo::Options;

constexpr int64_t kSequenceRows = 6;

Options remembering(int64_t sequence) {
  Options o = small();
  o.network.memory = 9;
  o.sequence = sequence;
  return o;
}

TEST(rows_of_sequences, are_their_steps_one_behind_another) {
  constexpr int64_t T = 6, R = 4, L = 3;
  const auto sequences = at::arange(T / L * R);
  const auto rows = ppo::rows_of_sequences(sequences, L, R);
  ASSERT_EQ(rows.size(0), T * R);
  for (int64_t s = 0; s < sequences.size(0); ++s)
    for (int64_t l = 0; l < L; ++l) {
      EXPECT_EQ(rows[s * L + l].item<int64_t>(), (s / R * L + l) * R + s % R);
      EXPECT_EQ(ppo::row_of_sequence(s, l, L, R), (s / R * L + l) * R + s % R);
    }
  // without sequences rows are their own
  EXPECT_TRUE(at::equal(ppo::rows_of_sequences(at::arange(24), 1, R), at::arange(24)));
}

TEST(PpoMemory, sequences_give_what_acting_gave_wherever_they_begin) {
  for (const bool shared : {false, true})
    for (const int64_t L : {4, 16}) {
      Options o = remembering(L);
      o.network.shared = shared;
      RandomRollouts run(vectors(), kSequenceRows, o);
      const Batch& batch = run.collect(1);
      ASSERT_GT(batch.is_first.sum().item<int64_t>(), 0) << "episodes begin within sequences";

      // the state that the first row of a rollout was acted with is no other's
      EXPECT_FALSE(
          close(batch.extra[ppo::memory_column][7], batch.extra[ppo::memory_column][8], 1e-3));
      const int64_t T = o.rollout, count = T / L * kSequenceRows;
      auto rows =
          ppo::time_first(batch, ppo::rows_of_sequences(at::randperm(count), L, kSequenceRows), L);
      const auto of_rollout = [&](const at::Tensor& column) {
        return column.narrow(0, 0, T).flatten(0, 1).index_select(0, rows.index);
      };
      at::NoGradGuard no_grad;
      auto& policy = run.ppo.policy();
      const auto out =
          policy.forward(policy.network(), {of_rollout(batch.obs[0])}, {}, &rows.recall);
      const auto log_probs =
          log_prob(run.spec().action, {out.logits, {}, {}}, of_rollout(batch.action)).log_prob;
      EXPECT_TRUE(close(log_probs, of_rollout(batch.extra[ppo::log_prob_column]), 1e-5));
      EXPECT_TRUE(close(out.value, of_rollout(batch.extra[ppo::value_column]), 1e-5));
    }
}

TEST(PpoMemory, the_row_behind_a_rollout_is_valued_with_what_led_there) {
  RandomRollouts run(vectors(), kSequenceRows, remembering(0));
  const Batch& batch = run.collect(2);
  auto& policy = run.ppo.policy();
  at::NoGradGuard no_grad;
  // all steps in one go, from the beginning
  Recall recall{batch.extra[ppo::memory_column][0], batch.is_first};
  const auto out = policy.forward(policy.network(), {batch.obs[0].flatten(0, 1)}, {}, &recall);
  const int64_t T = batch.reward.size(0);
  const auto last = out.value.narrow(0, T * kSequenceRows, kSequenceRows);
  EXPECT_TRUE(close(policy.last_value(batch, 0, kSequenceRows), last, 1e-5));
  EXPECT_TRUE(close(policy.last_value(batch, 2, 3), last.narrow(0, 2, 3), 1e-5));
  // and so it is on panels
  run.learner().prepare(batch);
  EXPECT_TRUE(close(batch.extra[ppo::value_column][T], last, 1e-5));
}

// of many rows, in panels of two steps each
TEST(PpoMemory, on_panels_values_are_those_of_the_networks_in_the_rewards_units) {
  for (const bool shared : {false, true}) {
    constexpr int64_t kMany = 75;
    Options o = remembering(4);
    o.network.shared = shared, o.network.value_head = ValueHeadKind::popart;
    RandomRollouts run(privileged(), kMany, o);
    for (int64_t i = 0; i < 2; ++i) run.update(i);
    const Batch& batch = run.collect(2);
    auto& policy = run.ppo.policy();
    ASSERT_TRUE(policy.panels());
    Recall recall{batch.extra[ppo::memory_column][0].clone(), batch.is_first};
    std::vector<at::Tensor> obs;
    for (const auto& column : batch.obs) obs.push_back(column.flatten(0, 1));
    at::NoGradGuard no_grad;
    const auto out = policy.forward(policy.network(), obs, {}, &recall);
    const auto expected = policy.network().value_head().denormalize(out.value);
    run.learner().prepare(batch);
    EXPECT_TRUE(close(batch.extra[ppo::value_column].flatten(), expected, 1e-5));
  }
}

TEST(PpoMemory, is_on_panels_where_layers_are_fully_connected_and_its_cells_fused) {
  const auto on_panels = [](const EnvSpec& spec, const std::function<void(Options&)>& change) {
    Options o = remembering(4);
    change(o);
    return RandomRollouts(spec, kSequenceRows, o).ppo.policy().panels() != nullptr;
  };
  EXPECT_TRUE(on_panels(vectors(), [](Options&) {}));
  EXPECT_FALSE(on_panels(vectors(), [](Options& o) { o.network.fused_memory = false; }));
  EXPECT_FALSE(on_panels(vectors(), [](Options& o) { o.fused = false; }));
  EXPECT_FALSE(on_panels(cells(), [](Options&) {}));
  // nor in bf16, nor on a device
  ThreadPool pool(1);
  AlgoContext context{.spec = vectors(), .rows = kSequenceRows, .pool = &pool};
  EXPECT_TRUE(ppo::learns_on_panels(remembering(4), context));
  context.precision = Precision::bf16;
  EXPECT_FALSE(ppo::learns_on_panels(remembering(4), context));
  context.precision = Precision::fp32, context.device = at::Device(at::kCUDA, 0);
  EXPECT_FALSE(ppo::learns_on_panels(remembering(4), context));
}

TEST(PpoMemory, how_sequences_are_cut_into_shards_follows_from_sizes) {
  ThreadPool pool(1);
  const auto sequences = [&](int64_t rows, int64_t rollout, int64_t L, int64_t minibatch,
                             bool shared) {
    Options o = remembering(L);
    o.rollout = rollout, o.minibatch = minibatch, o.network.shared = shared;
    const AlgoContext context{.spec = vectors(), .rows = rows, .pool = &pool};
    const auto network =
        make_network(o.network, ppo::network_context(context), Initializer::shapes());
    const int64_t shard = ppo::shard_rows(o, context, *network);
    EXPECT_EQ(shard % L, 0);
    return shard / L;
  };
  // few long ones: a shard each where policy and value are one, else both together
  EXPECT_EQ(sequences(8, 128, 128, 256, false), 2);
  EXPECT_EQ(sequences(8, 128, 128, 256, true), 1);
  EXPECT_EQ(sequences(8, 128, 128, 128, false), 1);
  EXPECT_EQ(sequences(8, 128, 16, 256, false), 4);
  EXPECT_EQ(sequences(1024, 32, 32, 8192, false), 4);
  // short ones fill a panel
  EXPECT_EQ(sequences(1024, 32, 2, 8192, false), 32);
}

TEST(PpoMemory, a_step_is_explained_by_what_it_was_acted_with) {
  for (const bool shared : {false, true}) {
    Options o = remembering(4);
    o.network.shared = shared;
    RandomRollouts run(vectors(), kSequenceRows, o);
    const Batch& batch = run.collect(1);
    int64_t begun = 0;
    for (int64_t t = 0; t + 1 < o.rollout; ++t) {
      const auto row = [&](const at::Tensor& column, int64_t time) {
        return column[time].narrow(0, t % kSequenceRows, 1).clone();
      };
      const at::Tensor memory = batch.extra[ppo::memory_column];
      ActedStep acted{.step = {.obs = {row(batch.obs[0], t)},
                               .is_first = row(batch.is_first, t),
                               .action = row(batch.action, t)},
                      .before = {{row(memory, t)}},
                      .after = {{row(memory, t + 1)}}};
      auto& policy = run.ppo.policy();
      const auto found = policy.explain(acted, Asked::value).value();
      const auto taken = acted.step.action[0].to(at::kLong);
      EXPECT_TRUE(close(found.log_probs.index_select(0, taken),
                        row(batch.extra[ppo::log_prob_column], t), 1e-5));
      const double value = row(batch.extra[ppo::value_column], t).item<double>();
      EXPECT_NEAR(found.value.value(), value, 1e-5);
      EXPECT_NEAR(found.asked, value, 1e-5);
      // the newest memory is among the layers, and is the one it went on with
      std::vector<at::Tensor> units;
      for (const LayerOutput& layer : found.layers)
        if (layer.name.ends_with("memory")) units.push_back(layer.output);
      EXPECT_TRUE(close(at::cat(units, 1), acted.after.parts[0], 1e-5));

      // a gradient is what a small change does, with what was remembered as it was
      constexpr float kMove = 1e-2f;
      ActedStep less = acted, more = acted;
      less.step.obs = {acted.step.obs[0].clone()}, more.step.obs = {acted.step.obs[0].clone()};
      less.step.obs[0][0][2] -= kMove, more.step.obs[0][0][2] += kMove;
      const double slope =
          (policy.explain(more, {})->value.value() - policy.explain(less, {})->value.value()) /
          (2 * kMove);
      EXPECT_NEAR(found.inputs[0].gradient[2].item<double>(), slope, 2e-3);
      EXPECT_GT(found.inputs[0].gradient.abs().max().item<double>(), 1e-3);

      // another memory, another answer, but where an episode begins
      acted.before.parts[0].add_(0.5);
      const bool first = acted.step.is_first.item<bool>();
      begun += first;
      const double moved = std::abs(policy.explain(acted, {})->value.value() - value);
      if (first) EXPECT_LT(moved, 1e-5);
      else EXPECT_GT(moved, 1e-4);
    }
    EXPECT_GT(begun, 0) << "a row begins an episode";
  }
}

TEST(PpoMemory, an_update_does_not_depend_on_the_number_of_threads) {
  // one shard, a few, more than there are lanes; and off panels
  struct Cut {
    int64_t rows, sequence, minibatch;
    bool shared, panels;
  };
  for (const Cut& cut : {Cut{6, 16, 32, false, true},
                         {6, 4, 48, false, true},
                         {6, 4, 48, true, true},
                         {90, 16, 0, false, true},
                         {6, 4, 48, false, false}}) {
    Options o = remembering(cut.sequence);
    o.minibatch = cut.minibatch, o.shard_rows = 12, o.network.shared = cut.shared;
    const EnvSpec spec = cut.panels ? privileged() : pixels();
    if (!cut.panels) o.network.kind = &find_network("mlp");
    at::Tensor alone;
    for (int threads : {1, 2, 3}) {
      RandomRollouts run(spec, cut.rows, o, threads);
      ASSERT_EQ(run.ppo.policy().panels() != nullptr, cut.panels);
      const at::Tensor before = run.weights();
      for (int64_t i = 0; i < 2; ++i) run.update(i);
      EXPECT_FALSE(at::equal(run.weights(), before));
      if (threads == 1) alone = run.weights();
      else EXPECT_TRUE(at::equal(run.weights(), alone));
    }
  }
}

TEST(PpoMemory, a_devices_plan_has_the_launches_of_its_cells) {
  ThreadPool pool(1);
  const AlgoContext context{
      .spec = vectors(), .rows = kSequenceRows, .device = at::Device(at::kCUDA, 0), .pool = &pool};
  const auto launches = [&](int64_t units, int64_t sequence, bool shared) {
    Options o = remembering(sequence);
    o.network.memory = units;
    o.minibatch = 48, o.epochs = 3, o.network.shared = shared;
    for (const StageWork& stage : ppo::planned_work(o, context))
      if (stage.name == "update") return stage.launches;
    return 0.;
  };
  // two minibatches an epoch, five kernels a cell
  const int64_t narrow = kMostGruScanUnits, wide = narrow + 1;
  EXPECT_DOUBLE_EQ(launches(narrow, 4, false) - launches(narrow, 4, true), 3 * 2 * 5.);
  EXPECT_DOUBLE_EQ(launches(narrow, 16, true), launches(narrow, 4, true));
  // and step where it is wide
  EXPECT_DOUBLE_EQ(launches(wide, 16, true) - launches(wide, 4, true), 3 * 2 * 12 * 5.);
  EXPECT_DOUBLE_EQ(launches(wide, 16, false) - launches(wide, 4, false), 3 * 2 * 12 * 5. * 2);
}

TEST(PpoMemory, sequences_that_do_not_fit_are_refused_with_the_nearest_that_do) {
  const auto refused = [](int64_t sequence, int64_t minibatch) {
    Options o = remembering(sequence);
    o.minibatch = minibatch;
    return error_of([&] { o.check(kSequenceRows); });
  };
  EXPECT_EQ(refused(8, 48), "");
  EXPECT_TRUE(
      contains(refused(5, 0), "ppo.sequence must be a divisor of ppo.rollout=16, got 5; use 4"));
  EXPECT_TRUE(contains(refused(32, 0), "got 32; use 16"));
  EXPECT_TRUE(contains(refused(8, 52),
                       "ppo.minibatch must be a multiple of the 8 steps of a sequence "
                       "(ppo.sequence), got 52; use 48"));
  EXPECT_TRUE(contains(refused(0, 40), "got 40; use 32"));
  Options leashed = remembering(8);
  leashed.leash = 1;
  EXPECT_TRUE(contains(error_of([&] { leashed.check(kSequenceRows); }), "ppo.leash"));
  // what sees one step may not
  Options o = remembering(0);
  o.network.kind = &find_network("proof");
  EXPECT_TRUE(contains(error_of([&] { RandomRollouts(goals(), kSequenceRows, o); }),
                       "proof remembers nothing"));
}

}  // namespace
}  // namespace maglev
