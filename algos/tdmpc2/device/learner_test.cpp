#include "algos/tdmpc2/device/learner.h"

#include <gtest/gtest.h>

#include "algos/tdmpc2/reference/learner.h"
#include "tests/tdmpc2_learners.h"

namespace maglev::tdmpc2 {
namespace {

template <class Learner>
void both_gradients(Made<Learner>& made, const Sequences& batch, int64_t at_once) {
  const auto latents = made.learner.model_gradients(batch, at_once, made.figures);
  made.learner.policy_gradients(latents, batch, at_once, made.figures);
}

class DeviceLearnerParity : public testing::TestWithParam<Setting> {};

TEST_P(DeviceLearnerParity, gradients_and_figures_are_those_of_autograd) {
  Made<ReferenceLearner> reference(GetParam());
  Made<DeviceLearner> device(GetParam());
  const Sequences batch = sequences(reference.options, 3);
  both_gradients(reference, batch, reference.options.options.batch);
  // all at once, and in parts of which the last is shorter
  for (const int64_t at_once : {GetParam().B, GetParam().B / 2 + 1}) {
    device.state.scale.fill_(1);
    both_gradients(device, batch, at_once);
    expect_gradients_close(device.state.grad, reference.state.grad, reference.state.model->layout(),
                           gradient_rounding(reference.options));
    EXPECT_TRUE(close(device.state.scale, reference.state.scale, 1e-5)) << at_once;
    EXPECT_TRUE(close(device.figures, reference.figures, 5e-5)) << at_once;
  }
}

TEST_P(DeviceLearnerParity, an_update_leaves_the_parameters_autograd_leaves) {
  expect_updates_of_autograd<ReferenceLearner, DeviceLearner>(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Settings, DeviceLearnerParity,
                         testing::Values(Setting{}, Setting{.B = 9, .H = 5},
                                         Setting{.entropy_of = EntropyOf::action},
                                         Setting{.B = 20, .H = 1, .episodic = false, .dropout = 0},
                                         Setting{.B = 20, .H = 2, .hidden = unlike_widths()}));

// what autograd in bf16 is off by is the measure: both round what enters a product
TEST(DeviceLearner, in_bf16_is_as_far_from_fp32_as_autograd_is) {
  const Setting exact, rounded{.precision = Precision::bf16};
  Made<ReferenceLearner> truth(exact), reference(rounded);
  Made<DeviceLearner> device(rounded);
  const Sequences batch = sequences(truth.options, 3);
  both_gradients(truth, batch, exact.B);
  both_gradients(reference, batch, exact.B);
  const auto off = [&](const at::Tensor& grad) {
    return (grad - truth.state.grad).norm().item<double>() / truth.state.grad.norm().item<double>();
  };
  // parts are added in f32: no further off, however many there are
  for (const int64_t at_once : {exact.B, exact.B / 4}) {
    device.state.scale.fill_(1);
    both_gradients(device, batch, at_once);
    std::printf("bf16: gradients differ by %.2f %% of their norm, autograd's by %.2f %%\n",
                100 * off(device.state.grad), 100 * off(reference.state.grad));
    EXPECT_GT(off(device.state.grad), 0);
    EXPECT_LT(off(device.state.grad), 1.5 * off(reference.state.grad));
    EXPECT_TRUE(close(device.figures, truth.figures, 1e-2));
  }
}

TEST(DeviceLearner, a_batch_that_does_not_fit_is_learned_from_in_halves) {
  expect_halves_where_memory_is_short<DeviceLearner>();
}

TEST(DeviceLearner, says_what_it_cannot_take) {
  ThreadPool pool(1);
  LearnerOptions options = learner_options({}, pool);
  EXPECT_EQ(DeviceLearner::obstacle(options), "");
  EXPECT_EQ(DeviceLearner::obstacle(learner_options({.precision = Precision::bf16}, pool)), "");
  EXPECT_NE(DeviceLearner::obstacle(learner_options({.images = true}, pool)), "");
  EXPECT_NE(DeviceLearner::obstacle(learner_options({.episodic = false, .tasks = true}, pool)), "");
  options.shape.hidden.reward = {32, 20};
  EXPECT_NE(DeviceLearner::obstacle(options), "");
  options.shape.hidden.reward = {32, 8192};
  EXPECT_NE(DeviceLearner::obstacle(options), "");
}

TEST(DeviceLearner, learns_on_a_gpu_unless_it_is_switched_off) {
  ThreadPool pool(1);
  LearnerOptions options = learner_options({}, pool);
  EXPECT_EQ(learner_kind(options, at::kCUDA), LearnerKind::device);
  EXPECT_EQ(learner_kind(options, at::kCPU), LearnerKind::panels);
  options.options.fused = true;
  EXPECT_EQ(learner_kind(options, at::kCUDA), LearnerKind::device);
  options.options.fused = false;
  EXPECT_EQ(learner_kind(options, at::kCUDA), LearnerKind::reference);
  options = learner_options({.images = true}, pool);
  EXPECT_EQ(learner_kind(options, at::kCUDA), LearnerKind::reference);
}

}  // namespace
}  // namespace maglev::tdmpc2
