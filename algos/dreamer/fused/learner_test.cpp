#include "algos/dreamer/fused/learner.h"

#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <gtest/gtest.h>

#include "algos/dreamer/reference/learner.h"
#include "tests/close.h"
#include "tests/limited_memory.h"
#include "tests/random_sequences.h"
#include "tests/span_names.h"

namespace maglev::dreamer {
namespace {

class FusedLearnerParity : public testing::TestWithParam<Setting> {
 protected:
  static Sequences batch(const LearnerOptions& options, uint64_t seed) {
    return sequences(options, seed, at::kCPU, GetParam().waits);
  }
};

TEST_P(FusedLearnerParity, gradients_are_those_of_autograd) {
  Made<ReferenceLearner> reference(GetParam());
  Made<FusedLearner> fused(GetParam());
  const Sequences batch = this->batch(reference.options, 3);
  // the reference's update leaves its gradient clipped tensor by tensor: taken before that here
  const auto ours = fused.learner.gradients(batch).clone();
  const ReferenceLoss loss(reference.options.options, reference.options.shape,
                           *reference.state.networks, *reference.state.slow_value);
  const auto noise =
      reference.learner.noise(reference.options.options.length, reference.options.options.batch);
  auto terms = loss.compute(batch, noise, reference.state.range);
  terms.total.backward();
  const Tolerance tolerance = gradient_rounding(reference.options, *reference.state.networks);
  const auto& ranges = reference.state.params.ranges();
  const auto names = reference.state.networks->named_parameters().keys();
  for (size_t i = 0; i < ranges.size(); ++i) {
    const auto a = ours.narrow(0, ranges[i].begin, ranges[i].count);
    const auto b = reference.state.grad.narrow(0, ranges[i].begin, ranges[i].count);
    EXPECT_GT(b.abs().max().item<float>(), 0) << names[i];
    EXPECT_TRUE(close(a, b, tolerance)) << names[i] << ", largest " << b.abs().max().item<float>();
  }
  EXPECT_TRUE(close(fused.state.range, reference.state.range, tolerance));
}

TEST_P(FusedLearnerParity, an_update_leaves_what_autograd_leaves) {
  Made<ReferenceLearner> reference(GetParam());
  Made<FusedLearner> fused(GetParam());
  for (uint64_t seed : {3, 4}) {
    const auto theirs = reference.learner.update(batch(reference.options, seed), reference.figures);
    const auto ours = fused.learner.update(batch(fused.options, seed), fused.figures);
    EXPECT_TRUE(close(ours.deter, theirs.deter, 1e-5));
    EXPECT_TRUE(at::equal(ours.stoch, theirs.stoch));
    for (int64_t f = 0; f < int64_t(kFigures); ++f)
      EXPECT_TRUE(close(fused.figures[f], reference.figures[f], 2e-4))
          << figure_names(Objective::reconstruction)[size_t(f)] << " "
          << fused.figures[f].item<float>() << " " << reference.figures[f].item<float>();
  }
  const auto before = Made<FusedLearner>(GetParam()).state.params.data();
  EXPECT_GT((fused.state.params.data() - before).abs().max().item<float>(), 1e-4f);
  EXPECT_TRUE(close(fused.state.params.data(), reference.state.params.data(), 1e-5));
  EXPECT_TRUE(close(fused.state.slow_params.data(), reference.state.slow_params.data(), 1e-5));
  EXPECT_TRUE(at::equal(fused.state.updates, reference.state.updates));
}

INSTANTIATE_TEST_SUITE_P(
    Settings, FusedLearnerParity,
    testing::Values(Setting{}, Setting{.B = 1, .T = 4, .categories = true}, Setting{.B = 9, .T = 8},
                    Setting{.B = 5, .images = true, .categories = true},
                    Setting{.B = 5, .side = 10, .planes = 7, .images = true, .categories = true},
                    Setting{.B = 9, .redundancy = true},
                    Setting{.B = 5, .images = true, .redundancy = true},
                    Setting{.B = 13, .micro_batch = 2}, Setting{.B = 5, .shard = 1},
                    Setting{.B = 9, .images = true, .shard = 2, .micro_batch = 1},
                    Setting{.B = 8, .images = true, .micro_batch = 1},
                    Setting{.B = 9, .redundancy = true, .micro_batch = 3},
                    Setting{.B = 9, .T = 8, .waits = true},
                    Setting{.B = 5, .images = true, .categories = true, .waits = true},
                    Setting{.B = 13, .micro_batch = 2, .waits = true},
                    Setting{.B = 9, .redundancy = true, .micro_batch = 3, .waits = true}));

TEST(DreamerFusedLearner, results_do_not_depend_on_threads) {
  for (const auto& [images, redundancy, shard] : {std::tuple{false, false, 0},
                                                  {true, false, 0},
                                                  {true, true, 0},
                                                  {false, false, 2},
                                                  {true, true, 2}}) {
    Setting setting{.B = 13, .images = images, .redundancy = redundancy, .shard = shard};
    Made<FusedLearner> one(setting);
    setting.threads = 3;
    Made<FusedLearner> three(setting);
    for (uint64_t seed : {3, 4}) {
      one.learner.update(sequences(one.options, seed), one.figures);
      three.learner.update(sequences(three.options, seed), three.figures);
    }
    EXPECT_TRUE(close(three.state.params.data(), one.state.params.data(), 0));
    EXPECT_TRUE(close(three.figures, one.figures, 0));
  }
}

TEST(DreamerFusedLearner, a_shard_in_parts_does_not_depend_on_threads) {
  Made<FusedLearner> one({.B = 13, .micro_batch = 3}),
      two({.B = 13, .threads = 2, .micro_batch = 3});
  one.learner.update(sequences(one.options, 3), one.figures);
  two.learner.update(sequences(two.options, 3), two.figures);
  EXPECT_TRUE(close(two.state.params.data(), one.state.params.data(), 0));
  EXPECT_TRUE(close(two.figures, one.figures, 0));
}

TEST(DreamerFusedLearner, a_batch_has_shards_for_as_many_threads_as_are_asked_for) {
  Options o;
  EXPECT_EQ(o.batch, 16);
  EXPECT_EQ(shard_count(o, at::kCPU), 2);
  EXPECT_EQ(for_more_threads(o, 1, at::kCPU), "");
  EXPECT_EQ(for_more_threads(o, 2, at::kCPU), "");
  EXPECT_EQ(for_more_threads(o, 3, at::kCPU), "dreamer.shard=6");
  EXPECT_EQ(for_more_threads(o, 4, at::kCPU), "dreamer.shard=4");
  // those of one sequence are advised to nobody
  EXPECT_EQ(for_more_threads(o, 64, at::kCPU), "dreamer.shard=2");
  o.shard = 4;
  EXPECT_EQ(shard_count(o, at::kCPU), 4);
  EXPECT_EQ(for_more_threads(o, 4, at::kCPU), "");
  o.shard = 20;
  EXPECT_EQ(shard_count(o, at::kCPU), 1);
  EXPECT_EQ(for_more_threads(o, 2, at::kCPU), "dreamer.shard=8");
  // a device has one, and so has the reference
  EXPECT_EQ(shard_count(o, at::Device(at::kCUDA, 0)), 1);
  EXPECT_EQ(for_more_threads(o, 4, at::Device(at::kCUDA, 0)), "");
  o.fused = false;
  EXPECT_EQ(for_more_threads(o, 4, at::kCPU), "");
}

TEST(DreamerFusedLearner, parts_are_of_one_size) {
  EXPECT_EQ(sequences_at_once(0, 8), 8);
  EXPECT_EQ(sequences_at_once(20, 8), 8);
  EXPECT_EQ(sequences_at_once(4, 8), 4);
  EXPECT_EQ(sequences_at_once(4, 9), 3);
  EXPECT_EQ(sequences_at_once(4, 7), 1);
}

TEST(DreamerFusedLearner, shards_that_do_not_fit_take_their_sequences_in_parts) {
  const auto update = [](int64_t bytes) -> Limited {
    const LimitedMemory memory(bytes);
    Made<FusedLearner> made({.B = 16, .T = 12, .H = 8});
    made.learner.update(sequences(made.options, 3), made.figures);
    return {made.state.params.data().clone(), memory.taken(), made.learner.note()};
  };
  expect_parts_where_memory_is_short(update, 1e-5, "4 sequences of a shard at a time");
}

TEST(DreamerLearners, say_the_stages_of_an_update) {
  using Names = std::set<std::string>;
  const Names none, common{"noise", "observe", "dream", "heads", "critic", "actor", "back"};
  for (const bool redundancy : {false, true}) {
    const Setting setting{.B = 9, .redundancy = redundancy, .threads = 2};
    const auto fused = span_names([&] {
      Made<FusedLearner> made(setting);
      made.learner.update(sequences(made.options, 3), made.figures);
    });
    EXPECT_EQ(missing(common, fused), none);
    EXPECT_EQ(missing({"weights", "encode", "prior", "range", "optimiser"}, fused), none);
    EXPECT_EQ(fused.contains("decode"), !redundancy);
    EXPECT_EQ(fused.contains("agreement"), redundancy);
  }
  const auto reference = span_names([&] {
    Made<ReferenceLearner> made(Setting{});
    made.learner.update(sequences(made.options, 3), made.figures);
  });
  EXPECT_EQ(missing(common, reference), none);
}

// what an end cuts off changes nothing behind it, gradients neither
TEST(DreamerFusedLearner, nothing_passes_where_an_episode_begins) {
  Made<FusedLearner> before({.B = 2, .T = 2}), after({.B = 2, .T = 2});
  Sequences s = sequences(before.options, 3);
  s.is_first.fill_(1);
  const auto gradient = before.learner.gradients(s).clone();
  s.deter = -s.deter, s.stoch = 3 - s.stoch, s.action = -s.action;
  EXPECT_TRUE(at::equal(after.learner.gradients(s), gradient));
}

}  // namespace
}  // namespace maglev::dreamer
