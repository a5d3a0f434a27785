#include "algos/tdmpc2/panels/learner.h"

#include <cstdio>

#include <gtest/gtest.h>

#include "algos/tdmpc2/reference/learner.h"
#include "tests/tdmpc2_learners.h"

namespace maglev::tdmpc2 {
namespace {

/// Roundings to bfloat16 on the way of gradient_rounding: every layer behind the encoder rounds its
/// weights and inputs, back its weights and the gradient, and the product over the rows both sides
/// once more. Of the terms of a sum each is rounded by itself, which moves the sum as one rounding
/// of a number of its size does.
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
  reference.learner.policy_gradients(latents, batch, all, reference.figures);
  panels.learner.model_gradients(batch);
  panels.learner.policy_gradients();
  expect_gradients_close(panels.state.grad, reference.state.grad, reference.state.model->layout(),
                         gradient_rounding(reference.options));
  EXPECT_TRUE(close(panels.state.scale, reference.state.scale, 1e-5));
}

TEST_P(PanelLearnerParity, an_update_leaves_the_parameters_autograd_leaves) {
  expect_updates_of_autograd<ReferenceLearner, PanelLearner>(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Settings, PanelLearnerParity,
                         testing::Values(Setting{},
                                         Setting{.B = 128, .H = 1, .episodic = false, .dropout = 0},
                                         Setting{.B = 8, .H = 5, .dropout = 0.01},
                                         Setting{.entropy_of = EntropyOf::action},
                                         Setting{.B = 70, .H = 2, .hidden = unlike_widths()}));

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
  options.shape.hidden.reward = {32, 20};
  EXPECT_NE(PanelLearner::obstacle(options, at::kCPU), "");
  options = learner_options({}, pool);
  options.shape.tasks = 2;
  EXPECT_NE(PanelLearner::obstacle(options, at::kCPU), "");
  options = learner_options({.precision = Precision::bf16}, pool);
  EXPECT_EQ(PanelLearner::obstacle(options, at::kCPU).empty(), pair_products_available());
  options.shape.latent = 24;
  EXPECT_NE(PanelLearner::obstacle(options, at::kCPU), "");
}

}  // namespace
}  // namespace maglev::tdmpc2
