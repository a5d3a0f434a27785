// Processes that each learn from a share of a batch learn what one learns from all of it.

#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "algos/tdmpc2/device/learner.h"
#include "algos/tdmpc2/panels/learner.h"
#include "algos/tdmpc2/reference/learner.h"
#include "tests/group_of_threads.h"
#include "tests/tdmpc2_learners.h"

namespace maglev::tdmpc2 {
namespace {

Sequences share_of(const Sequences& all, int64_t rank, int64_t count) {
  const auto own = [&](const at::Tensor& x, int64_t dim) {
    return x.defined() ? x.narrow(dim, rank * count, count).contiguous() : x;
  };
  return {.obs = own(all.obs, 1),
          .action = own(all.action, 1),
          .reward = own(all.reward, 1),
          .terminated = own(all.terminated, 1),
          .task = own(all.task, 0)};
}

template <class Learner>
void expect_shares_learn_what_a_batch_does(Setting setting, int processes) {
  Made<ReferenceLearner> one(setting);
  std::vector<Sequences> batches;
  for (uint64_t seed : {3, 4}) batches.push_back(sequences(one.options, seed));
  for (const Sequences& batch : batches) one.learner.update(batch, one.figures);

  GroupOfThreads group(processes);
  setting.B /= processes;
  std::vector<std::unique_ptr<Made<Learner>>> made;
  for (int rank = 0; rank < processes; ++rank) {
    setting.group = &group.member(rank);
    made.push_back(std::make_unique<Made<Learner>>(setting));
  }
  group.run([&](int rank) {
    for (const Sequences& batch : batches)
      made[size_t(rank)]->learner.update(share_of(batch, rank, setting.B),
                                         made[size_t(rank)]->figures);
  });
  for (const auto& each : made) {
    EXPECT_TRUE(close(each->state.params.data(), one.state.params.data(), 1e-6));
    EXPECT_TRUE(close(each->state.target_q, one.state.target_q, 1e-6));
    EXPECT_TRUE(close(each->state.scale, one.state.scale, 1e-5));
    EXPECT_TRUE(close(each->figures, one.figures, 1e-4)) << each->figures << one.figures;
    // and all of them the same
    EXPECT_TRUE(at::equal(each->state.params.data(), made[0]->state.params.data()));
    EXPECT_TRUE(at::equal(each->figures, made[0]->figures));
  }
}

TEST(Tdmpc2Shares, of_the_reference_learn_what_a_batch_does) {
  expect_shares_learn_what_a_batch_does<ReferenceLearner>({.B = 24}, 2);
  expect_shares_learn_what_a_batch_does<ReferenceLearner>({.B = 24, .micro_batch = 5}, 2);
  expect_shares_learn_what_a_batch_does<ReferenceLearner>({.B = 12, .images = true}, 3);
  expect_shares_learn_what_a_batch_does<ReferenceLearner>(
      {.B = 12, .episodic = false, .tasks = true}, 2);
}

TEST(Tdmpc2Shares, on_panels_learn_what_a_batch_does) {
  expect_shares_learn_what_a_batch_does<PanelLearner>({.B = 140}, 2);
  expect_shares_learn_what_a_batch_does<PanelLearner>({.B = 24, .H = 5}, 3);
}

TEST(Tdmpc2Shares, of_a_device_learn_what_a_batch_does) {
  expect_shares_learn_what_a_batch_does<DeviceLearner>({.B = 24}, 2);
  expect_shares_learn_what_a_batch_does<DeviceLearner>({.B = 24, .micro_batch = 3}, 3);
}

// throws in the policy's way back, which is behind what processes tell each other of their values
struct Failing {
  explicit Failing(Made<ReferenceLearner>& made) {
    for (const auto& p : made.state.model->named_parameters())
      if (p.key().starts_with("policy"))
        p.value().register_hook([this](const at::Tensor&) {
          if (std::exchange(fails, false)) throw std::runtime_error("a failure");
        });
  }
  bool fails = true;
};

TEST(Tdmpc2Shares, of_an_update_that_did_not_end_leave_nothing_to_the_next) {
  GroupOfThreads group(1);
  const Setting setting{.B = 24, .group = &group.member(0)};
  Made<ReferenceLearner> fresh(setting), made(setting);
  const Sequences first = sequences(made.options, 3), second = sequences(made.options, 4);
  const auto latents = made.learner.model_gradients(first, setting.B, made.figures);
  Failing failing(made);
  EXPECT_THROW(made.learner.policy_gradients(latents, first, setting.B, made.figures),
               std::runtime_error);
  EXPECT_FALSE(failing.fails);
  for (auto* each : {&fresh, &made}) each->learner.update(second, each->figures);
  EXPECT_NE(fresh.state.scale.item<float>(), 1.f);
  EXPECT_TRUE(at::equal(made.state.scale, fresh.state.scale));
  EXPECT_TRUE(at::equal(made.state.params.data(), fresh.state.params.data()));
}

}  // namespace
}  // namespace maglev::tdmpc2
