#include "algos/tdmpc2/panels/learner.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "algos/tdmpc2/reference/learner.h"
#include "engine/host/cpu_cache.h"
#include "engine/host/machine.h"
#include "engine/run/checkpoint.h"
#include "engine/run/snapshot.h"
#include "tests/close.h"

namespace maglev::tdmpc2 {
namespace {

struct Setting {
  int64_t B = 70, H = 3;
  bool episodic = true;
  double dropout = 0.1;
  int threads = 1;
  int64_t alignment = 1;
  Precision precision = Precision::fp32;
};

LearnerOptions learner_options(const Setting& setting, ThreadPool& pool) {
  Options o;
  o.enc_dim = 24, o.mlp_dim = 40, o.latent_dim = 16, o.num_q = 3;
  o.batch = setting.B, o.horizon = setting.H, o.dropout = setting.dropout;
  o.episodic = setting.episodic;
  const EnvSpec spec{.observations = {{.name = "vector", .shape = {5}}},
                     .action = {.low = {-1, -1, -1}, .high = {1, 1, 1}},
                     .max_steps = 100};
  ModelShape shape = model_shape(o, spec);
  shape.alignment = setting.alignment;
  return {.options = o,
          .shape = shape,
          .seed = 7,
          .discount = discounts(o, spec),
          .precision = setting.precision,
          .pool = &pool};
}

Sequences sequences(const LearnerOptions& o, uint64_t seed) {
  at::manual_seed(seed);
  const int64_t H = o.options.horizon, B = o.options.batch;
  return {.obs = at::randn({H + 1, B, o.shape.obs}),
          .action = at::rand({H, B, o.shape.actions}) * 2 - 1,
          .reward = at::randn({H, B}) * 3,
          .terminated = (at::rand({H, B}) < 0.2).to(at::kFloat)};
}

/// A learner and what it changes, from the same weights each time; none is 0, as some are at first.
template <class Learner>
struct Made {
  explicit Made(const Setting& setting)
      : pool((claim_threads(), setting.threads)),
        options(learner_options(setting, pool)),
        state(options.options, options.shape, 7, at::kCPU),
        learner(options, state),
        figures(at::zeros({int64_t(kFigures)})) {
    at::manual_seed(11);
    state.params.data().add_(at::randn_like(state.params.data()), 0.2);
    state.target_q.add_(at::randn_like(state.target_q), 0.2);
    state.updates.fill_(5);
    // large second moments make a step of Adam nearly linear in the gradient
    for (auto* adam : {&state.model_adam, &state.policy_adam}) adam->second_moment().fill_(1e-3);
  }

  ThreadPool pool;
  LearnerOptions options;
  LearnerState state;
  Learner learner;
  at::Tensor figures;
};

/// Tensor by tensor: a layer's weights, its biases, its gains and shifts.
void expect_gradients_close(const at::Tensor& ours, const at::Tensor& reference,
                            const ModelLayout& layout, const Tolerance& tolerance) {
  std::vector<MlpPlaces> nets{layout.encoder, layout.dynamics, layout.reward, layout.termination};
  nets.insert(nets.end(), layout.q.begin(), layout.q.end());
  nets.push_back(layout.policy);
  for (size_t n = 0; n < nets.size(); ++n)
    for (const auto& place : nets[n])
      for (auto [begin, end] : {std::pair{place.weight(), place.bias()},
                                {place.bias(), place.gain()},
                                {place.gain(), place.end()}}) {
        if (begin >= end) continue;
        const auto a = ours.narrow(0, begin, end - begin);
        const auto b = reference.narrow(0, begin, end - begin);
        EXPECT_TRUE(b.abs().max().item<double>() > 0 || begin >= layout.policy_begin());
        EXPECT_TRUE(close(a, b, tolerance))
            << "network " << n << ", layer " << place.in << " -> " << place.out << " at " << begin;
      }
}

/// The longest way from a weight to its gradient: through the encoder, the dynamics of every step
/// and a head, each layer's inputs and two moments of its outputs; all of it back again; and the sum
/// over all rows of all steps.
Tolerance gradient_rounding(const LearnerOptions& o) {
  const ModelLayout layout = model_layout(o.shape);
  const auto through = [](const MlpPlaces& net) {
    int64_t sums = 0;
    for (const auto& place : net) sums += place.in + (place.normed ? 2 * place.out : 0);
    return sums;
  };
  const int64_t H = o.options.horizon;
  const int64_t there =
      through(layout.encoder) + H * through(layout.dynamics) + through(layout.q.front());
  return Tolerance::of_sums(2 * there + H * o.options.batch);
}

/// Roundings to bfloat16 on that way: every layer behind the encoder rounds its weights and inputs,
/// back its weights and the gradient, and the product over the rows both sides once more. Of the
/// terms of a sum each is rounded by itself, which moves the sum as one rounding of a number of its
/// size does.
Tolerance bfloat16_rounding(const LearnerOptions& o) {
  const ModelLayout layout = model_layout(o.shape);
  const size_t layers = size_t(o.options.horizon) * layout.dynamics.size() + layout.q[0].size();
  return Tolerance::of_sums(int64_t(4 * layers + 2), kRoundBf16);
}

class PanelLearnerParity : public testing::TestWithParam<Setting> {};

TEST_P(PanelLearnerParity, gradients_and_figures_are_those_of_autograd) {
  Made<ReferenceLearner> reference(GetParam());
  Made<PanelLearner> panels(GetParam());
  const Sequences batch = sequences(reference.options, 3);
  const int64_t all = reference.options.options.batch;
  const auto latents = reference.learner.model_gradients(batch, all, reference.figures);
  reference.learner.policy_gradients(latents, {}, all, reference.figures);
  panels.learner.model_gradients(batch);
  panels.learner.policy_gradients();
  expect_gradients_close(panels.state.grad, reference.state.grad, reference.state.model->layout(),
                         gradient_rounding(reference.options));
  EXPECT_TRUE(close(panels.state.scale, reference.state.scale, 1e-5));
}

TEST_P(PanelLearnerParity, an_update_leaves_the_parameters_autograd_leaves) {
  Made<ReferenceLearner> reference(GetParam());
  Made<PanelLearner> panels(GetParam());
  for (uint64_t seed : {3, 4}) {
    reference.learner.update(sequences(reference.options, seed), reference.figures);
    panels.learner.update(sequences(panels.options, seed), panels.figures);
  }
  const auto before = Made<PanelLearner>(GetParam()).state.params.data();
  EXPECT_GT((panels.state.params.data() - before).abs().max().item<float>(), 1e-5f);
  EXPECT_TRUE(close(panels.state.params.data(), reference.state.params.data(), 1e-6));
  EXPECT_TRUE(close(panels.state.target_q, reference.state.target_q, 1e-6));
  EXPECT_TRUE(close(panels.figures, reference.figures, 5e-5))
      << "values pass through an exponential";
  EXPECT_TRUE(close(panels.state.updates, reference.state.updates, 0));
}

INSTANTIATE_TEST_SUITE_P(Settings, PanelLearnerParity,
                         testing::Values(Setting{},
                                         Setting{.B = 128, .H = 1, .episodic = false, .dropout = 0},
                                         Setting{.B = 8, .H = 5, .dropout = 0.01}));

TEST_P(PanelLearnerParity, gradients_in_bf16_are_those_of_fp32_but_for_rounding) {
  if (!pair_products_available()) GTEST_SKIP() << "no products of bfloat16 pairs here";
  Setting setting = GetParam();
  Made<PanelLearner> exact(setting);
  setting.precision = Precision::bf16;
  Made<PanelLearner> rounded(setting);
  const Sequences batch = sequences(exact.options, 3);
  for (auto* made : {&exact, &rounded}) {
    made->learner.model_gradients(batch);
    made->learner.policy_gradients();
  }
  EXPECT_GT((rounded.state.grad - exact.state.grad).abs().max().item<float>(), 0.f);
  expect_gradients_close(rounded.state.grad, exact.state.grad, exact.state.model->layout(),
                         bfloat16_rounding(exact.options));
  // rounding has no direction of its own: over all weights it is small
  const double off = (rounded.state.grad - exact.state.grad).norm().item<double>() /
                     exact.state.grad.norm().item<double>();
  std::printf("bf16: gradients differ by %.2f %% of their norm\n", 100 * off);
  EXPECT_LT(off, bfloat16_rounding(exact.options).share / 6);
}

void expect_same_on_threads(Precision precision) {
  Made<PanelLearner> one({.B = 200, .precision = precision});
  Made<PanelLearner> three({.B = 200, .threads = 3, .precision = precision});
  for (uint64_t seed : {3, 4}) {
    one.learner.update(sequences(one.options, seed), one.figures);
    three.learner.update(sequences(three.options, seed), three.figures);
  }
  EXPECT_TRUE(close(three.state.params.data(), one.state.params.data(), 0));
  EXPECT_TRUE(close(three.figures, one.figures, 0));
}

TEST(PanelLearner, results_do_not_depend_on_threads) { expect_same_on_threads(Precision::fp32); }

TEST(PanelLearner, results_in_bf16_do_not_depend_on_threads) {
  if (!pair_products_available()) GTEST_SKIP() << "no products of bfloat16 pairs here";
  expect_same_on_threads(Precision::bf16);
}

TEST(PanelLearner, says_what_it_cannot_take) {
  ThreadPool pool(1);
  LearnerOptions options = learner_options({}, pool);
  EXPECT_EQ(PanelLearner::obstacle(options, at::kCPU), "");
  options.shape.mlp_dim = 20;
  EXPECT_NE(PanelLearner::obstacle(options, at::kCPU), "");
  options = learner_options({}, pool);
  options.shape.tasks = 2;
  EXPECT_NE(PanelLearner::obstacle(options, at::kCPU), "");
  options = learner_options({.precision = Precision::bf16}, pool);
  EXPECT_EQ(PanelLearner::obstacle(options, at::kCPU).empty(), pair_products_available());
  options.shape.latent = 24;
  EXPECT_NE(PanelLearner::obstacle(options, at::kCPU), "");
}

TEST(Tdmpc2ReferenceLearner, learns_alike_from_parts_of_a_batch) {
  Made<ReferenceLearner> whole({});
  const Sequences batch = sequences(whole.options, 3);
  const auto learn = [&](Made<ReferenceLearner>& made, int64_t at_once) {
    const auto latents = made.learner.model_gradients(batch, at_once, made.figures);
    made.learner.policy_gradients(latents, {}, at_once, made.figures);
  };
  learn(whole, 70);
  for (int64_t at_once : {35, 32, 1}) {
    Made<ReferenceLearner> parts({});
    // what a begun update left behind is not in the next
    if (at_once == 32) learn(parts, 70), parts.state.scale.fill_(1);
    learn(parts, at_once);
    expect_gradients_close(parts.state.grad, whole.state.grad, whole.state.model->layout(),
                           gradient_rounding(whole.options));
    EXPECT_TRUE(close(parts.state.scale, whole.state.scale, 1e-5)) << at_once;
    EXPECT_TRUE(close(parts.figures, whole.figures, 5e-5)) << at_once;
  }
}

// less and less of the bytes that an update of the whole batch left behind is all there is, until it does
// not fit any more; then too few for any
TEST(Tdmpc2ReferenceLearner, a_batch_that_does_not_fit_is_learned_from_in_halves) {
  use_cpu_cache();
  struct Outcome {
    at::Tensor params;
    int64_t bytes;
    std::string note;
  };
  const auto update = [](int64_t bytes) -> Outcome {
    Made<ReferenceLearner> made({.B = 512});
    const Sequences batch = sequences(made.options, 3);
    release_cpu_cache();
    const int64_t before = cpu_cache_bytes();
    const std::shared_ptr<void> afterwards(nullptr, [](void*) { limit_cpu_cache(0); });
    if (bytes > 0) limit_cpu_cache(before + bytes);
    made.learner.update(batch, made.figures);
    return {made.state.params.data().clone(), cpu_cache_bytes() - before, made.learner.note()};
  };
  update(0);  // libraries set themselves up
  const Outcome whole = update(0);
  EXPECT_EQ(whole.note, "");
  Outcome less = whole;
  for (int64_t sixteenths = 15; sixteenths > 1 && less.note.empty(); --sixteenths) {
    less = update(whole.bytes * sixteenths / 16);
    EXPECT_TRUE(close(less.params, whole.params, 1e-6)) << sixteenths;
  }
  EXPECT_NE(less.note.find("learned from 256 sequences at a time"), std::string::npos) << less.note;
  EXPECT_THROW(update(whole.bytes / 64), c10::OutOfMemoryError);
}

TEST(Tdmpc2ReferenceLearner, learns_alike_however_parameters_are_aligned) {
  Made<ReferenceLearner> packed({}), aligned({.alignment = 16});
  ASSERT_GT(aligned.state.params.size(), packed.state.params.size());
  const auto visit = [](LearnerState& state) {
    return [&state](StateVisitor& v) { state.visit(v); };
  };
  StateSnapshot(visit(packed.state)).restore(visit(aligned.state));
  EXPECT_EQ(state_hash(visit(aligned.state)), state_hash(visit(packed.state)));
  for (int i = 0; i < 2; ++i) {
    packed.learner.update(sequences(packed.options, i), packed.figures);
    aligned.learner.update(sequences(aligned.options, i), aligned.figures);
    EXPECT_TRUE(close(aligned.figures, packed.figures, 1e-5));
  }
  const auto ours = aligned.state.model->parameters(), theirs = packed.state.model->parameters();
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(close(ours[i], theirs[i], 1e-6));
}

}  // namespace
}  // namespace maglev::tdmpc2
