#include "kernels/policy/policy.h"

#include <cmath>
#include <cstring>
#include <vector>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "kernels/policy/policy_op.h"
#include "tests/close.h"

namespace maglev {
namespace {

ActionSpec heads(std::vector<int64_t> sizes) { return {.heads = std::move(sizes)}; }
ActionSpec continuous(int64_t dims) {
  return {.low = std::vector<float>(size_t(dims), -1.f),
          .high = std::vector<float>(size_t(dims), 1.f)};
}
at::Tensor actions(const ActionSpec& spec, int64_t rows) {
  return at::zeros({rows, spec.dims()}, spec.discrete() ? at::kInt : at::kFloat);
}

// over 100,000 draws, first rows on both sides of 2^32
TEST(Policy, draws_are_those_of_the_distribution) {
  at::manual_seed(1);
  for (const auto& spec : {heads({2}), heads({6, 3, 2}), continuous(3)}) {
    const int64_t B = 1000, width = spec.discrete() ? spec.categories() : 3;
    DistParams params{.logits = at::randn({B, width}) * 2};
    if (!spec.discrete()) params.log_std = at::randn({width}) * 0.5;
    auto ours = actions(spec, B), theirs = actions(spec, B);
    for (int64_t step = 0; step < 30; ++step)
      for (int64_t first_row : {int64_t(3), (int64_t(1) << 32) - 40}) {
        const ActKey key{.seed = 77, .step = step};
        policy_sample(spec, params, ActMode::sample, key, first_row, ours);
        sample(spec, params, ActMode::sample, key, first_row, theirs);
        ASSERT_TRUE(close(ours, theirs, spec.discrete() ? 0 : 2e-6)) << "step " << step;
      }
  }
}

// rows picked out of a batch keep their numbers, on both sides of 2^32
TEST(Policy, a_row_picked_by_its_index_draws_what_it_draws_in_its_place) {
  at::manual_seed(5);
  const int64_t B = 100, first = (int64_t(1) << 32) - 50;
  const auto picked = at::tensor({0, 3, 4, 49, 50, 51, 52, 70, 98, 99}, at::kLong);
  const auto index = picked + first;
  for (const auto& spec : {heads({6, 3}), continuous(3)}) {
    DistParams all{.logits = at::randn({B, spec.discrete() ? 9 : 3})};
    if (!spec.discrete()) all.log_std = at::randn({3}) * 0.5;
    DistParams some{.logits = all.logits.index_select(0, picked), .log_std = all.log_std};
    ActKey key{.seed = 77, .step = 4};
    auto whole = actions(spec, B);
    policy_sample(spec, all, ActMode::sample, key, first, whole);
    key.rows = index.const_data_ptr<int64_t>();
    for (auto draw : {policy_sample, sample}) {
      auto part = actions(spec, picked.size(0));
      draw(spec, some, ActMode::sample, key, 0, part);
      EXPECT_TRUE(close(part, whole.index_select(0, picked), spec.discrete() ? 0 : 2e-6));
    }
  }
}

// over 100,000 draws of one row of logits each: what is drawn is of logits over the temperature
TEST(Policy, a_temperature_divides_logits_and_multiplies_deviations) {
  at::manual_seed(6);
  const int64_t n = 40000;
  const auto row = at::tensor({0.3f, -1.f, 2.f, 0.f, 1.1f});
  const DistParams all{.logits = row.repeat({n, 1})};
  for (const float temperature : {0.5f, 1.f, 3.f}) {
    const auto expected = at::softmax(row / temperature, 0).to(at::kDouble) * n;
    for (auto draw : {policy_sample, sample}) {
      auto action = actions(heads({5}), n);
      const auto log_prob = draw(heads({5}), all, ActMode::sample,
                                 {.seed = 9, .temperature = temperature}, 0, action);
      const auto counts = at::bincount(action.flatten(), {}, 5).to(at::kDouble);
      EXPECT_LT(((counts - expected).square() / expected).sum().item<double>(), 23.5)
          << temperature;  // 4 degrees, p = 0.0001
      // the policy's own, whatever it drew by
      EXPECT_TRUE(close(log_prob, policy_log_prob(heads({5}), all, action).log_prob, 2e-6));
    }
  }
  const DistParams g{.logits = at::randn({333, 3}), .log_std = at::randn({3}) * 0.5};
  for (auto draw : {policy_sample, sample}) {
    auto once = actions(continuous(3), 333), twice = once.clone(), almost_mean = once.clone();
    draw(continuous(3), g, ActMode::sample, {.seed = 9}, 0, once);
    draw(continuous(3), g, ActMode::sample, {.seed = 9, .temperature = 2}, 0, twice);
    draw(continuous(3), g, ActMode::sample, {.seed = 9, .temperature = 1e-9f}, 0, almost_mean);
    EXPECT_TRUE(close(twice - g.logits, 2 * (once - g.logits), 4e-6));
    EXPECT_TRUE(close(almost_mean, g.logits, 1e-6));
  }
}

// the ratio of a policy that did not move is exactly 1 because of this
TEST(Policy, the_log_probability_of_a_draw_is_the_recomputed_one_to_the_bit) {
  at::manual_seed(2);
  auto discrete = heads({5, 3});
  DistParams p{.logits = at::randn({333, 8}), .mask = (at::rand({333, 8}) < 0.7).to(at::kByte)};
  p.mask.select(1, 0).fill_(1), p.mask.select(1, 5).fill_(1);
  auto category = actions(discrete, 333);
  auto drawn = policy_sample(discrete, p, ActMode::sample, {.seed = 1}, 0, category);
  EXPECT_TRUE(close(policy_log_prob(discrete, p, category).log_prob, drawn, 0));
  DistParams g{.logits = at::randn({333, 3}), .log_std = at::randn({3})};
  auto action = actions(continuous(3), 333);
  drawn = policy_sample(continuous(3), g, ActMode::sample, {.seed = 1}, 0, action);
  EXPECT_TRUE(close(policy_log_prob(continuous(3), g, action).log_prob, drawn, 0));
}

// a row's numbers do not depend on its place, on the other rows or on what padding holds
TEST(Policy, a_row_is_the_same_wherever_it_stands) {
  at::manual_seed(3);
  auto spec = heads({4});
  DistParams all{.logits = at::randn({64, 4})};
  auto whole = actions(spec, 64);
  auto whole_log_prob = policy_sample(spec, all, ActMode::sample, {.seed = 4}, 100, whole);
  for (int64_t begin : {0, 1, 17, 63})
    for (int64_t count : {1, 5, 16, 33}) {
      const int64_t n = std::min(count, 64 - begin);
      auto part = actions(spec, n);
      auto log_prob = policy_sample(spec, {.logits = all.logits.narrow(0, begin, n)},
                                    ActMode::sample, {.seed = 4}, 100 + begin, part);
      EXPECT_TRUE(close(part, whole.narrow(0, begin, n), 0)) << begin << " " << count;
      EXPECT_TRUE(close(log_prob, whole_log_prob.narrow(0, begin, n), 0)) << begin << " " << count;
    }
}

TEST(Policy, padding_is_neither_read_into_rows_nor_written) {
  const int64_t head = 3;
  alignas(64) float logits[3 * 16];
  std::vector<int32_t> first_action;
  for (float padding : {0.f, 1e30f, -1e30f}) {
    for (int64_t f = 0; f < 3; ++f)
      for (int64_t r = 0; r < 16; ++r) logits[f * 16 + r] = r < 5 ? 0.3f * float(f * r) : padding;
    std::vector<int32_t> action(16, -7);
    std::vector<float> log_prob(16, -7.f);
    policy_sample_cpu({.policy = {.heads = &head,
                                  .head_count = 1,
                                  .dims = 1,
                                  .logits = logits,
                                  .stride = 16,
                                  .rows = 5},
                       .seed = 5,
                       .purpose = Purpose::act,
                       .action_i32 = action.data(),
                       .log_prob = log_prob.data()});
    for (size_t r = 5; r < 16; ++r) EXPECT_TRUE(action[r] == -7 && log_prob[r] == -7.f) << r;
    if (first_action.empty()) first_action = action;
    EXPECT_EQ(action, first_action);
  }
}

TEST(Policy, excluded_categories_are_never_drawn_and_count_nothing) {
  auto spec = heads({3, 2});
  const int64_t n = 5000;
  DistParams p{.logits = at::tensor({9.f, 0.f, 1.f, 0.f, 5.f}).repeat({n, 1}),
               .mask = at::tensor({0, 1, 1, 1, 0}).to(at::kByte).repeat({n, 1})};
  auto action = actions(spec, n);
  for (auto mode : {ActMode::sample, ActMode::mean}) {
    policy_sample(spec, p, mode, {.seed = 6}, 0, action);
    EXPECT_GE(action.select(1, 0).min().item<int>(), 1);
    EXPECT_EQ(action.select(1, 1).max().item<int>(), 0);
  }
  // as if the excluded ones were not there
  auto two = at::log_softmax(at::tensor({0.f, 1.f}), 0);
  auto result = policy_log_prob(spec, p, action);
  EXPECT_TRUE(close(result.entropy, -(two.exp() * two).sum().expand({n}), 1e-6));
  EXPECT_TRUE(close(result.log_prob, two[1].expand({n}), 1e-6));
}

// far from 0 and near certainty: where a softmax loses digits or overflows
TEST(Policy, log_probabilities_and_entropies_are_exact_for_extreme_logits) {
  auto spec = heads({3});
  auto logits =
      at::tensor({1e4f, 1e4f, -1e4f, 0.f, -20.f, -40.f, -80.f, -170.f, -250.f}).view({3, 3});
  auto action = at::tensor({1, 1, 0}).view({3, 1}).to(at::kInt);
  auto all = at::log_softmax(logits.to(at::kDouble), 1);
  auto result = policy_log_prob(spec, {.logits = logits}, action);
  auto expected = all.gather(1, action.to(at::kLong)).squeeze(1);
  EXPECT_TRUE(close(result.log_prob, expected.to(at::kFloat), 1e-6));
  auto entropy = -(all.exp() * all).sum(1);
  EXPECT_TRUE(close(result.entropy, entropy.to(at::kFloat), 1e-6));
}

TEST(Policy, a_nan_logit_shows_in_the_log_probability_and_leaves_the_action_in_range) {
  auto spec = heads({4});
  for (int64_t bad = 0; bad < 4; ++bad) {
    auto logits = at::zeros({2, 4});
    logits[1][bad] = NAN;
    auto action = actions(spec, 2);
    auto log_prob =
        policy_sample(spec, {.logits = logits}, ActMode::sample, {.seed = 8}, 0, action);
    EXPECT_FALSE(std::isnan(log_prob[0].item<float>()));
    EXPECT_TRUE(std::isnan(log_prob[1].item<float>()));
    EXPECT_TRUE(action.min().item<int>() >= 0 && action.max().item<int>() < 4);
  }
}

}  // namespace
}  // namespace maglev
