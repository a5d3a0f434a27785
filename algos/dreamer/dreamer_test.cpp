#include "algos/dreamer/dreamer.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "algos/dreamer/reference/learner.h"
#include "algos/dreamer/row_weights.h"
#include "base/core/error.h"
#include "engine/data/rollout.h"
#include "engine/host/machine.h"
#include "engine/run/checkpoint.h"
#include "tests/close.h"
#include "tests/folder.h"

namespace maglev::dreamer {
namespace {

// of an agent that ended, waited, began anew and came; the last row may be a begin or a wait
TEST(RowWeights, are_0_where_an_agent_waits_and_1_in_the_mean) {
  const auto is_first = at::tensor({0, 0, 1, 1, 0, 1}, at::kByte).view({6, 1});
  const auto weight = row_weights(is_first, /*group=*/nullptr);
  const float w = 5.f / 3;
  EXPECT_TRUE(at::allclose(weight, at::tensor({w, 0.f, w, w, 0.f}).view({5, 1}))) << weight;
  EXPECT_TRUE(at::equal(row_weights(at::ones({6, 2}, at::kByte), nullptr), at::zeros({5, 2})));
}

Options small() {
  Options o;
  o.deter = 32, o.hidden = 16, o.classes = 4, o.stoch = 6, o.depth = 2, o.units = 24;
  o.batch = 5, o.length = 7, o.imagination = 4;
  o.lr = 3e-3, o.warmup = 0;
  return o;
}

EnvSpec vectors() {
  return {.observations = {{.name = "vector", .shape = {5}}},
          .action = {.low = {-2, -1}, .high = {2, 3}}};
}
EnvSpec categories() {
  EnvSpec spec = vectors();
  spec.action = {.heads = {3, 2}};
  return spec;
}
EnvSpec images() {
  EnvSpec spec = categories();
  spec.observations = {{.name = "image", .dtype = DType::u8, .shape = {16, 32, 3}}};
  return spec;
}

/// Dreamer on made-up rows and sequences.
class Case {
 public:
  explicit Case(const EnvSpec& spec, const Options& options = small(), int64_t rows = 3)
      : spec_((claim_threads(), spec)),
        options_(options),
        metrics_(at::kCPU),
        algo(options,
             {.spec = spec, .rows = rows, .total_steps = 10'000, .seed = 3, .pool = &pool_}),
        store(spec, {.T = 1, .rows = rows, .block_rows = rows}, algo.plan().columns, at::kCPU),
        carry(algo.policy().initial_carry(rows)) {}

  /// `seed` says what is seen.
  at::Tensor act(ActMode mode, const ActKey& key, uint64_t seed = 5) {
    at::manual_seed(seed);
    TimeStep& step = store.step(0);
    fill(step.obs);
    algo.policy().act(step, carry, mode, key);
    return step.action.clone();
  }
  Batch batch(uint64_t seed) const {
    at::manual_seed(seed);
    const int64_t L = options_.length, B = options_.batch;
    Batch b = make_columns(spec_, algo.plan().columns, {.observed = L + 1, .acted = L}, B,
                           at::TensorOptions(at::kCPU));
    fill(b.obs);
    if (spec_.action.discrete())
      for (size_t h = 0; h < spec_.action.heads.size(); ++h)
        b.action.select(2, int64_t(h)).random_(0, spec_.action.heads[h]);
    else b.action.uniform_(-1, 2);
    b.reward.normal_();
    // episodes end here and there, and begin at the next step but one
    const auto ended = at::rand({L, B}) < 0.15;
    b.terminated.copy_(ended.logical_and(at::rand({L, B}) < 0.5));
    b.truncated.copy_(ended.logical_and(b.terminated == 0));
    b.is_first.narrow(0, 2, L - 1).copy_(ended.narrow(0, 0, L - 1));
    return b;
  }
  Batch update(uint64_t seed) {
    const Batch b = batch(seed);
    algo.update(b, metrics_);
    algo.publish();
    return b;
  }
  float figure(Figure f) { return algo.figures()[int64_t(f)].item<float>(); }
  std::string hash() {
    return state_hash([&](StateVisitor& v) { algo.visit_state(v); });
  }

 private:
  void fill(const std::vector<at::Tensor>& obs) const {
    for (const auto& o : obs) {
      if (o.scalar_type() == at::kByte) {
        // each picture of one colour: a small decoder learns no noise by heart
        const auto pictures = o.flatten(-3);
        o.copy_(at::randint(0, 256, pictures.sizes().slice(0, o.dim() - 3))
                    .unsqueeze(-1)
                    .expand_as(pictures)
                    .reshape_as(o));
      } else {
        o.normal_();
      }
    }
  }

  EnvSpec spec_;
  Options options_;
  ThreadPool pool_{1};
  Metrics metrics_;

 public:
  Dreamer algo;
  Rollout store;
  Carry carry;
};

constexpr ActKey kKey{.seed = 3, .purpose = Purpose::act, .step = 1000};

TEST(Dreamer, learns_a_batch_by_heart) {
  for (const auto& spec : {vectors(), categories(), images()}) {
    Case test(spec);
    test.update(1);
    const float seen = test.figure(kObservation), reward = test.figure(kReward),
                going_on = test.figure(kContinue);
    for (int i = 0; i < 100; ++i) test.update(1);
    EXPECT_LT(test.figure(kObservation), 0.7f * seen) << spec.observations[0].name;
    EXPECT_LT(test.figure(kReward), 0.7f * reward);
    EXPECT_LT(test.figure(kContinue), 0.7f * going_on);
    EXPECT_TRUE(at::isfinite(test.algo.figures()).all().item<bool>());
  }
}

TEST(Dreamer, learns_without_a_decoder_what_states_say_of_tokens) {
  Options options = small();
  options.objective = Objective::redundancy;
  for (const auto& spec : {vectors(), images()}) {
    Case test(spec, options);
    EXPECT_FALSE(test.algo.state().networks->decoder);
    test.update(1);
    const float seen = test.figure(kObservation), reward = test.figure(kReward);
    for (int i = 0; i < 100; ++i) test.update(1);
    EXPECT_LT(test.figure(kObservation), 0.7f * seen) << spec.observations[0].name;
    EXPECT_LT(test.figure(kReward), 0.7f * reward);
    EXPECT_TRUE(at::isfinite(test.algo.figures()).all().item<bool>());
  }
}

TEST(Dreamer, without_a_decoder_states_learn_to_say_what_tokens_do_and_tokens_stay) {
  Options options = small();
  options.objective = Objective::redundancy;
  options.fused = false;  // the reference leaves its gradients in state.grad
  Case test(vectors(), options);
  LearnerState& state = test.algo.state();
  const ReferenceLoss loss(options, model_shape(options, vectors()), *state.networks,
                           *state.slow_value);
  const Sequences s = test.algo.sequences(test.batch(2));
  ReferenceLoss::Terms terms;
  terms.observed = loss.observe(s, at::rand({7, 5, 6}));
  loss.model_losses(s, terms);
  state.grad.zero_();
  terms.observation.backward();
  for (const auto& range : state.params.module_ranges()) {
    const auto moved = state.grad.narrow(0, range.begin, range.count).abs().max().item<float>();
    const bool learns =
        range.name == "rssm" || range.name == "projector" || range.name == "encoder";
    EXPECT_EQ(moved > 0, learns) << range.name;
  }
  // the encoder learns through the posterior alone: without a state there is no way to it
  terms.observed = loss.observe(s, at::rand({7, 5, 6}));
  terms.observed.latent = {terms.observed.latent.deter.detach(),
                           terms.observed.latent.stoch.detach()};
  loss.model_losses(s, terms);
  state.grad.zero_();
  terms.observation.backward();
  const auto& encoder = state.params.module_ranges().front();
  ASSERT_EQ(encoder.name, "encoder");
  EXPECT_EQ(state.grad.narrow(0, encoder.begin, encoder.count).abs().max().item<float>(), 0);
}

TEST(Dreamer, takes_sequences_apart_as_the_steps_that_led_to_what_is_seen) {
  Case test(categories());
  const Batch b = test.batch(4);
  b.extra[kDeterColumn].normal_();
  const Sequences s = test.algo.sequences(b);
  EXPECT_TRUE(at::equal(s.seen.vector, b.obs[0].narrow(0, 1, 7)));
  EXPECT_TRUE(at::equal(s.deter, b.extra[kDeterColumn][0]));
  EXPECT_TRUE(at::equal(s.is_first, b.is_first.narrow(0, 1, 7).to(at::kFloat)));
  EXPECT_TRUE(at::equal(s.ended, (b.terminated + b.truncated).to(at::kFloat)));
  // heads of 3 and 2 categories as ones and zeros
  EXPECT_TRUE(at::equal(s.action.narrow(2, 0, 3).argmax(-1).to(at::kInt), b.action.select(2, 0)));
  EXPECT_TRUE(at::equal(s.action.narrow(2, 3, 2).argmax(-1).to(at::kInt), b.action.select(2, 1)));
  EXPECT_TRUE(at::equal(s.action.sum(-1), at::full({7, 5}, 2.f)));
  Case bounded(vectors());
  const Batch c = bounded.batch(4);
  const auto action = bounded.algo.sequences(c).action;
  EXPECT_TRUE(close(action.select(2, 0), c.action.select(2, 0) / 2, 1e-6));
  EXPECT_TRUE(close(action.select(2, 1), (c.action.select(2, 1) - 1) / 2, 1e-6));
}

TEST(Dreamer, gives_back_the_states_it_computed) {
  Case test(vectors());
  Batch b = test.batch(2);
  b.extra[kDeterColumn].fill_(0.25);
  const ModelShape shape = model_shape(small(), vectors());
  LearnerState& state = test.algo.state();
  const ReferenceLearner learner({.options = small(), .shape = shape, .seed = 3}, state);
  const ReferenceLoss loss(small(), shape, *state.networks, *state.slow_value);
  const auto observed = loss.observe(test.algo.sequences(b), learner.noise(7, 5).posterior);
  Metrics metrics(at::kCPU);
  test.algo.update(b, metrics);
  EXPECT_EQ((b.extra[kDeterColumn][0] == 0.25).all().item<bool>(), true) << "context stays";
  EXPECT_TRUE(close(b.extra[kDeterColumn].narrow(0, 1, 6),
                    observed.latent.deter.detach().narrow(0, 0, 6), 1e-5));
  const auto category = observed.latent.stoch.detach().view({7, 5, 6, 4}).argmax(-1);
  EXPECT_TRUE(
      at::equal(b.extra[kStochColumn].narrow(0, 1, 6).to(at::kLong), category.narrow(0, 0, 6)));
}

TEST(Dreamer, an_episode_in_a_sequence_begins_without_what_was_before) {
  Case test(vectors());
  const ReferenceLoss loss(small(), model_shape(small(), vectors()), *test.algo.state().networks,
                           *test.algo.state().slow_value);
  Sequences s = test.algo.sequences(test.batch(2));
  s.is_first = at::zeros_like(s.is_first);
  s.is_first[3].fill_(1);
  const auto noise = at::rand({7, 5, 6});
  const auto before = loss.observe(s, noise);
  // all that led to step 3: other states, other sights, another action
  s.deter = at::randn_like(s.deter), s.stoch = 1 - s.stoch.clamp_max(1);
  s.seen.vector.narrow(0, 0, 3).add_(1), s.action.narrow(0, 0, 4).mul_(-0.5);
  const auto after = loss.observe(s, noise);
  const auto from = [](const Observed& o, int64_t first, int64_t count) {
    return o.latent.deter.detach().narrow(0, first, count);
  };
  EXPECT_TRUE(at::equal(from(before, 3, 4), from(after, 3, 4)));
  EXPECT_FALSE(at::equal(from(before, 0, 3), from(after, 0, 3)));
}

TEST(Dreamer, acts_by_what_it_remembers_and_forgets_it_where_an_episode_begins) {
  for (const auto& spec : {vectors(), images()}) {
    Case test(spec);
    for (uint64_t i = 0; i < 20; ++i) test.update(i);
    const auto act = [&](bool first, double remembered) {
      test.store.step(0).is_first.fill_(first);
      test.carry.parts[0].fill_(remembered);
      test.carry.parts[1].fill_(remembered > 0);
      test.carry.parts[2].fill_(remembered);
      test.act(ActMode::mean, kKey);
      return test.carry.parts[0].clone();
    };
    EXPECT_FALSE(at::equal(act(false, 0.9), act(false, -0.9)));
    EXPECT_TRUE(at::equal(act(true, 0.9), act(true, -0.9)));
    // states go into the replay as they are carried on
    EXPECT_TRUE(at::equal(test.carry.parts[0], test.store.step(0).extra[kDeterColumn]));
    EXPECT_TRUE(at::equal(test.carry.parts[1], test.store.step(0).extra[kStochColumn]));
  }
}

TEST(Dreamer, samples_within_the_bounds_and_takes_the_likeliest_by_mode_mean) {
  Case test(vectors(), small(), 200);
  test.store.step(0).is_first.fill_(1);
  const auto action = test.act(ActMode::sample, kKey);
  EXPECT_LE(action.select(1, 0).abs().max().item<float>(), 2);
  EXPECT_GE(action.select(1, 1).min().item<float>(), -1);
  EXPECT_LE(action.select(1, 1).max().item<float>(), 3);
  EXPECT_GT(action.select(1, 0).std().item<float>(), 0.5);
  // at first the mean is the middle
  const auto mean = test.act(ActMode::mean, kKey);
  EXPECT_LT(mean.select(1, 0).abs().max().item<float>(), 0.2);
  EXPECT_FALSE(at::equal(action, test.act(ActMode::sample, {.seed = 3, .step = 1001})));
  EXPECT_TRUE(at::equal(action, test.act(ActMode::sample, kKey)));

  Case chooses(categories(), small(), 600);
  chooses.store.step(0).is_first.fill_(1);
  const auto chosen = chooses.act(ActMode::sample, kKey);
  for (int64_t h = 0; h < 2; ++h) {
    const auto counts = at::bincount(chosen.select(1, h).to(at::kLong));
    ASSERT_EQ(counts.size(0), h == 0 ? 3 : 2);
    // an even choice, give or take what it has learned: nothing
    EXPECT_NEAR(counts.min().item<double>(), 600.0 / double(counts.size(0)), 70);
  }
}

TEST(Dreamer, a_temperature_divides_logits_and_multiplies_deviations) {
  at::manual_seed(4);
  const auto heads = at::randn({200, 5}), uniforms = at::rand({200, 2});
  const ActionDistribution chooses(model_shape(small(), categories()));
  for (const float temperature : {0.5f, 2.f}) {
    const auto drawn = chooses.draw(heads, uniforms, temperature);
    EXPECT_TRUE(at::equal(drawn, chooses.draw(heads / temperature, uniforms)));
    EXPECT_FALSE(at::equal(drawn, chooses.draw(heads, uniforms)));
  }
  const auto normals = at::randn({200, 4}), numbers = at::randn({200, 2});
  const ActionDistribution numeric(model_shape(small(), vectors()));
  const auto mean = numeric.mode(normals);
  EXPECT_TRUE(close(numeric.draw(normals, numbers, 2) - mean,
                    2 * (numeric.draw(normals, numbers) - mean), 1e-5));
}

TEST(Dreamer, a_rows_action_does_not_depend_on_the_rows_beside_it) {
  for (const auto& spec : {vectors(), images()}) {
    Case test(spec, small(), 5);
    test.update(1);
    const auto together = test.act(ActMode::sample, kKey);
    const TimeStep all = test.store.step(0);
    test.carry = test.algo.policy().initial_carry(5);
    for (int64_t n = 0; n < 5; ++n) {
      TimeStep one;
      one.first = n;
      one.obs.push_back(all.obs[0].narrow(0, n, 1));
      one.is_first = all.is_first.narrow(0, n, 1);
      one.action = at::zeros({1, 2}, all.action.options());
      Carry carry = test.carry.rows(n, 1);
      test.algo.policy().act(one, carry, ActMode::sample, kKey);
      EXPECT_TRUE(close(one.action[0], together[n], spec.action.discrete() ? 0 : 1e-5)) << n;
    }
  }
}

TEST(Dreamer, what_act_uses_changes_when_it_is_published) {
  Case test(vectors());
  const auto act = [&] {
    test.carry = test.algo.policy().initial_carry(3);
    return test.act(ActMode::mean, kKey);
  };
  const auto before = act();
  Metrics metrics(at::kCPU);
  for (uint64_t i = 0; i < 3; ++i) test.algo.update(test.batch(i), metrics);
  EXPECT_TRUE(at::equal(before, act()));
  test.algo.publish();
  EXPECT_FALSE(at::equal(before, act()));
}

TEST(Dreamer, learns_faster_as_it_warms_up) {
  Options o = small();
  o.warmup = 10, o.lr = 0.01;
  Case test(vectors(), o);
  const auto before = test.algo.state().params.data().clone();
  test.update(1);
  EXPECT_TRUE(at::equal(test.algo.state().params.data(), before));
  for (uint64_t i = 0; i < 5; ++i) test.update(i);
  EXPECT_NEAR(test.algo.state().lr.item<float>(), 0.005, 1e-8);
  for (uint64_t i = 0; i < 9; ++i) test.update(i);
  EXPECT_NEAR(test.algo.state().lr.item<float>(), 0.01, 1e-8);
}

TEST(Dreamer, the_slow_value_network_follows_by_its_share) {
  Options o = small();
  o.slow_rate = 0.25;
  Case test(vectors(), o);
  LearnerState& state = test.algo.state();
  const auto& range = state.params.module_ranges().back();
  const auto slow = state.slow_params.data().clone();
  EXPECT_TRUE(at::equal(slow, state.params.data().narrow(0, range.begin, range.count)));
  test.update(1);
  const auto online = state.params.data().narrow(0, range.begin, range.count);
  EXPECT_TRUE(close(state.slow_params.data(), 0.75 * slow + 0.25 * online, 1e-6));
  state.params.data().add_(1);
  test.algo.follow_networks();
  EXPECT_TRUE(at::equal(state.slow_params.data(), online));
}

TEST(Dreamer, continues_from_a_saved_state_to_the_bit) {
  Case whole(images()), first(images()), second(images());
  for (uint64_t i = 0; i < 4; ++i) whole.update(i);
  for (uint64_t i = 0; i < 2; ++i) first.update(i);
  const std::string folder = test_folder() + "/dreamer_checkpoints";
  const CheckpointIdentity identity{.algo = "dreamer", .env = "images"};
  const auto path = save_checkpoint(folder, identity, [&](auto& v) { first.algo.visit_state(v); });
  load_checkpoint(path, identity, [&](auto& v) { second.algo.visit_state(v); });
  second.algo.publish();
  for (uint64_t i = 2; i < 4; ++i) second.update(i);
  EXPECT_EQ(second.hash(), whole.hash());
  EXPECT_TRUE(at::equal(second.act(ActMode::sample, kKey), whole.act(ActMode::sample, kKey)));
}

}  // namespace
}  // namespace maglev::dreamer
