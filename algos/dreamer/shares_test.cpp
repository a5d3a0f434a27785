// Processes that each learn from a share of a batch learn what one learns from all of it.

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "algos/dreamer/fused/learner.h"
#include "algos/dreamer/reference/learner.h"
#include "tests/group_of_threads.h"
#include "tests/random_sequences.h"

namespace maglev::dreamer {
namespace {

Sequences share_of(const Sequences& all, int64_t rank, int64_t count) {
  const auto own = [&](const at::Tensor& x, int64_t dim = 1) {
    return x.defined() ? x.narrow(dim, rank * count, count).contiguous() : x;
  };
  return {.seen = {own(all.seen.image), own(all.seen.vector)},
          .is_first = own(all.is_first),
          .action = own(all.action),
          .reward = own(all.reward),
          .terminated = own(all.terminated),
          .ended = own(all.ended),
          .deter = own(all.deter, 0),
          .stoch = own(all.stoch, 0),
          .weight = own(all.weight)};
}

template <class Learner>
std::vector<std::unique_ptr<Made<Learner>>> made_shares(GroupOfThreads& group, Setting setting,
                                                        int processes) {
  std::vector<std::unique_ptr<Made<Learner>>> made;
  setting.B /= processes;
  for (int rank = 0; rank < processes; ++rank) {
    setting.group = &group.member(rank);
    made.push_back(std::make_unique<Made<Learner>>(setting));
  }
  return made;
}

class DreamerShares : public testing::TestWithParam<Setting> {};
constexpr int kProcesses = 2;

// of the numbers that processes draw, put together as one batch's
TEST_P(DreamerShares, have_the_gradient_of_the_batch) {
  Made<ReferenceLearner> one(GetParam());
  const Sequences batch = sequences(one.options, 3, at::kCPU, GetParam().waits);
  const int64_t T = one.options.options.length, B = one.options.options.batch / kProcesses;
  GroupOfThreads group(kProcesses);
  auto fused = made_shares<FusedLearner>(group, GetParam(), kProcesses);
  auto reference = made_shares<ReferenceLearner>(group, GetParam(), kProcesses);
  std::vector<at::Tensor> posterior, prior, action;
  for (const auto& each : reference) {
    const UpdateNoise noise = each->learner.noise(T, B);
    posterior.push_back(noise.posterior);
    prior.push_back(noise.prior.unflatten(1, {T, B}));
    action.push_back(noise.action.unflatten(1, {T, B}));
  }
  EXPECT_FALSE(at::equal(posterior[0], posterior[1]));
  const ReferenceLoss loss(one.options.options, one.options.shape, *one.state.networks,
                           *one.state.slow_value);
  const auto terms = loss.compute(
      batch,
      {at::cat(posterior, 1), at::cat(prior, 2).flatten(1, 2), at::cat(action, 2).flatten(1, 2)},
      one.state.range);
  terms.total.backward();

  std::vector<at::Tensor> gradients(kProcesses);
  group.run([&](int rank) {
    gradients[size_t(rank)] = fused[size_t(rank)]->learner.gradients(share_of(batch, rank, B));
  });
  const Tolerance tolerance = gradient_rounding(one.options, *one.state.networks);
  const auto names = one.state.networks->named_parameters().keys();
  const auto& ranges = one.state.params.ranges();
  for (size_t i = 0; i < ranges.size(); ++i) {
    const auto ours = gradients[0].narrow(0, ranges[i].begin, ranges[i].count);
    const auto all = one.state.grad.narrow(0, ranges[i].begin, ranges[i].count);
    EXPECT_GT(all.abs().max().item<float>(), 0) << names[i];
    EXPECT_TRUE(close(ours, all, tolerance)) << names[i];
  }
  EXPECT_TRUE(at::equal(gradients[1], gradients[0]));
  for (const auto& each : fused) EXPECT_TRUE(close(each->state.range, one.state.range, tolerance));
}

TEST_P(DreamerShares, of_the_fused_learner_learn_what_those_of_the_reference_do) {
  Made<ReferenceLearner> one(GetParam());
  std::vector<Sequences> batches;
  for (uint64_t seed : {3, 4})
    batches.push_back(sequences(one.options, seed, at::kCPU, GetParam().waits));
  GroupOfThreads group(kProcesses);
  auto fused = made_shares<FusedLearner>(group, GetParam(), kProcesses);
  auto reference = made_shares<ReferenceLearner>(group, GetParam(), kProcesses);
  const int64_t B = one.options.options.batch / kProcesses;
  const auto learn = [&](const auto& made) {
    group.run([&](int rank) {
      auto& each = *made[size_t(rank)];
      for (const Sequences& batch : batches)
        each.learner.update(share_of(batch, rank, B), each.figures);
    });
  };
  learn(fused), learn(reference);
  for (const auto& each : fused) {
    EXPECT_TRUE(close(each->state.params.data(), reference[0]->state.params.data(), 1e-5));
    EXPECT_TRUE(close(each->figures, reference[0]->figures, 2e-4))
        << each->figures << reference[0]->figures;
    EXPECT_TRUE(at::equal(each->state.params.data(), fused[0]->state.params.data()));
    EXPECT_TRUE(at::equal(each->figures, fused[0]->figures));
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, DreamerShares,
                         testing::Values(Setting{}, Setting{.B = 18, .categories = true},
                                         Setting{.B = 4, .images = true},
                                         Setting{.B = 10, .redundancy = true},
                                         Setting{.B = 16, .micro_batch = 2},
                                         Setting{.B = 18, .waits = true},
                                         Setting{.B = 10, .redundancy = true, .waits = true}));

}  // namespace
}  // namespace maglev::dreamer
