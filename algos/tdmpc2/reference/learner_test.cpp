#include "algos/tdmpc2/reference/learner.h"

#include <gtest/gtest.h>

#include "engine/run/checkpoint.h"
#include "engine/run/snapshot.h"
#include "tests/tdmpc2_learners.h"

namespace maglev::tdmpc2 {
namespace {

class Tdmpc2Parts : public testing::TestWithParam<Setting> {};

TEST_P(Tdmpc2Parts, of_a_batch_give_the_gradients_of_all_of_it) {
  const Setting setting = GetParam();
  Made<ReferenceLearner> whole(setting);
  const Sequences batch = sequences(whole.options, 3);
  const auto learn = [&](Made<ReferenceLearner>& made, int64_t at_once) {
    const auto latents = made.learner.model_gradients(batch, at_once, made.figures);
    made.learner.policy_gradients(latents, batch, at_once, made.figures);
  };
  learn(whole, setting.B);
  // equal parts, a shorter last one, and sequences one by one
  for (int64_t at_once : {setting.B / 2, setting.B / 2 - 1, int64_t(1)}) {
    Made<ReferenceLearner> parts(setting);
    // what a begun update left behind is not in the next
    if (at_once == setting.B / 2) learn(parts, setting.B), parts.state.scale.fill_(1);
    learn(parts, at_once);
    const bool exact = setting.precision == Precision::fp32;
    // latents of images do not change with the last bias: what it gets is rounding alone
    if (exact && !setting.images)
      expect_gradients_close(parts.state.grad, whole.state.grad, whole.state.model->layout(),
                             gradient_rounding(whole.options));
    // in bf16 each of the two gradients is rounded once
    const double off = (parts.state.grad - whole.state.grad).norm().item<double>() /
                       whole.state.grad.norm().item<double>();
    EXPECT_LT(off, exact ? 1e-4 : 2 * kRoundBf16) << at_once;
    EXPECT_TRUE(close(parts.state.scale, whole.state.scale, exact ? 1e-5 : 1e-2)) << at_once;
    EXPECT_TRUE(close(parts.figures, whole.figures, exact ? 5e-5 : 1e-2)) << at_once;
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, Tdmpc2Parts,
                         testing::Values(Setting{}, Setting{.B = 8, .images = true},
                                         Setting{.B = 16, .episodic = false, .tasks = true},
                                         Setting{.B = 16, .precision = Precision::bf16},
                                         Setting{.B = 16, .hidden = unlike_widths()}));

TEST(Tdmpc2ReferenceLearner, a_batch_that_does_not_fit_is_learned_from_in_halves) {
  expect_halves_where_memory_is_short<ReferenceLearner>();
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
