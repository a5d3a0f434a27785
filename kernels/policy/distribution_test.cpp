#include <cmath>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "kernels/policy/distribution_op.h"
#include "tests/close.h"

namespace maglev {
namespace {

ActionSpec categorical(std::vector<int64_t> sizes) { return {.heads = std::move(sizes)}; }
ActionSpec gaussian(int64_t dims) {
  return {.low = std::vector<float>(size_t(dims), -1.f),
          .high = std::vector<float>(size_t(dims), 1.f)};
}
ActKey key(int64_t step = 0) { return {.seed = 5, .step = step}; }
at::Tensor empty_actions(const ActionSpec& spec, int64_t rows) {
  return at::zeros({rows, spec.dims()}, spec.discrete() ? at::kInt : at::kFloat);
}

TEST(Distribution, one_allowed_category_leaves_no_doubt_and_finite_gradients) {
  auto spec = categorical({4});
  auto logits = at::randn({3, 4}).requires_grad_(true);
  auto mask = at::zeros({3, 4}, at::kByte);
  mask.select(1, 2).fill_(1);
  auto action = at::full({3, 1}, 2, at::kInt);
  auto result = log_prob(spec, {logits, {}, mask}, action);
  EXPECT_TRUE(close(result.log_prob, at::zeros({3}), 0));
  EXPECT_TRUE(close(at::abs(result.entropy), at::zeros({3}), 0));
  (result.log_prob.sum() + result.entropy.sum()).backward();
  EXPECT_TRUE(close(logits.grad(), at::zeros({3, 4}), 0));
}

TEST(Distribution, draws_follow_the_softmax) {
  auto spec = categorical({5});
  const int64_t n = 40000;
  auto row = at::tensor({0.3f, -1.f, 2.f, 0.f, 1.1f});
  auto action = empty_actions(spec, n);
  sample(spec, {row.expand({n, 5}), {}, {}}, ActMode::sample, key(), 0, action);
  auto counts = at::bincount(action.flatten(), {}, 5).to(at::kDouble),
       expected = at::softmax(row, 0).to(at::kDouble) * n;
  EXPECT_LT(((counts - expected).square() / expected).sum().item<double>(),
            23.5);  // 4 degrees, p = 0.0001
}

TEST(Distribution, excluded_categories_are_never_drawn_and_count_nothing) {
  auto spec = categorical({3, 2});
  const int64_t n = 5000;
  auto logits = at::tensor({9.f, 0.f, 1.f, 0.f, 5.f}).repeat({n, 1});
  auto mask = at::tensor({0, 1, 1, 1, 0}).to(at::kByte).repeat({n, 1});
  auto action = empty_actions(spec, n);
  for (auto mode : {ActMode::sample, ActMode::mean}) {
    sample(spec, {logits, {}, mask}, mode, key(), 0, action);
    EXPECT_GE(action.select(1, 0).min().item<int>(), 1);
    EXPECT_EQ(action.select(1, 1).max().item<int>(), 0);
  }
  // as if the excluded ones were not there
  auto two = at::log_softmax(at::tensor({0.f, 1.f}), 0);
  auto result = log_prob(spec, {logits, {}, mask}, action);
  EXPECT_TRUE(close(result.entropy, -(two.exp() * two).sum().expand({n}), 1e-6));
  EXPECT_TRUE(close(result.log_prob, two[1].expand({n}), 1e-6));
}

TEST(Distribution, heads_add_up) {
  auto spec = categorical({3, 2, 4});
  at::manual_seed(1);
  auto logits = at::randn({6, 9});
  auto action = empty_actions(spec, 6);
  sample(spec, {logits, {}, {}}, ActMode::sample, key(), 0, action);
  auto log_sum = at::zeros({6}), entropy_sum = at::zeros({6});
  int64_t begin = 0;
  for (int64_t h = 0; h < 3; ++h) {
    auto all = at::log_softmax(logits.narrow(1, begin, spec.heads[size_t(h)]), 1);
    log_sum += all.gather(1, action.narrow(1, h, 1).to(at::kLong)).squeeze(1);
    entropy_sum -= (all.exp() * all).sum(1);
    begin += spec.heads[size_t(h)];
  }
  auto result = log_prob(spec, {logits, {}, {}}, action);
  EXPECT_TRUE(close(result.log_prob, log_sum, 1e-6));
  EXPECT_TRUE(close(result.entropy, entropy_sum, 1e-6));
}

TEST(Distribution, all_categories_at_once_are_those_of_each_action) {
  at::manual_seed(4);
  ActionSpec spec{.heads = {3, 2}, .masked = true};
  DistParams params{.logits = at::randn({6, 5}), .mask = at::ones({6, 5}, at::kByte)};
  params.mask[2][1] = 0, params.mask[4][3] = 0;
  const auto all = category_log_probs(spec, params);
  for (int64_t a = 0; a < 3; ++a)
    for (int64_t b = 0; b < 2; ++b) {
      const auto action = at::tensor({a, b}, at::kInt).expand({6, 2}).contiguous();
      const auto expected = log_prob(spec, params, action).log_prob;
      for (int64_t row = 0; row < 6; ++row) {
        const double came = (all[row][a] + all[row][3 + b]).item<double>();
        if (params.mask[row][a].item<int>() && params.mask[row][3 + b].item<int>())
          EXPECT_NEAR(came, expected[row].item<double>(), 1e-6);
        else EXPECT_EQ(came, -INFINITY);
      }
    }
}

TEST(Distribution, a_gaussian_equals_its_closed_form) {
  auto spec = gaussian(2);
  auto mean = at::tensor({0.f, 1.f, 2.f, -1.f}).view({2, 2}), log_std = at::tensor({-0.5f, 0.3f});
  auto action = at::tensor({0.2f, 0.5f, 1.f, 1.f}).view({2, 2});
  auto expected = at::zeros({2}), std = log_std.exp();
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t d = 0; d < 2; ++d) {
      const double s = std[d].item<double>(), z = (action[b][d] - mean[b][d]).item<double>() / s;
      expected[b] += -0.5 * z * z - std::log(s * std::sqrt(2 * M_PI));
    }
  auto result = log_prob(spec, {mean, log_std, {}}, action);
  EXPECT_TRUE(close(result.log_prob, expected, 1e-6));
  // 0.5 * log(2 pi e s^2) a dimension
  auto entropy = (0.5 * at::log(2 * M_PI * M_E * std.square())).sum().expand({2});
  EXPECT_TRUE(close(result.entropy, entropy, 1e-6));
}

TEST(Distribution, gaussian_draws_have_their_mean_and_deviation) {
  auto spec = gaussian(2);
  const int64_t n = 40000;
  auto mean = at::tensor({1.f, -2.f}), log_std = at::tensor({-1.f, 0.5f});
  auto action = empty_actions(spec, n);
  sample(spec, {mean.expand({n, 2}), log_std, {}}, ActMode::sample, key(), 0, action);
  auto std = log_std.exp();
  EXPECT_TRUE(close((action.mean(0) - mean) / std, at::zeros({2}), 4 / std::sqrt(double(n))));
  EXPECT_TRUE(close(action.std(0) / std, at::ones({2}), 4 / std::sqrt(2. * n)));
}

TEST(Distribution, mean_mode_takes_the_likeliest_category_and_the_mean) {
  auto discrete = categorical({3, 2});
  auto category = empty_actions(discrete, 1);
  sample(discrete, {at::tensor({0.f, 3.f, 1.f, 2.f, -1.f}).view({1, 5}), {}, {}}, ActMode::mean,
         key(), 0, category);
  EXPECT_TRUE(close(category, at::tensor({1, 0}).view({1, 2}).to(at::kInt), 0));
  auto mean = at::tensor({0.5f, -0.25f}).view({1, 2});
  auto action = empty_actions(gaussian(2), 1);
  sample(gaussian(2), {mean, at::zeros({2}), {}}, ActMode::mean, key(), 0, action);
  EXPECT_TRUE(close(action, mean, 0));
}

// the ratio of a policy that did not move is exactly 1 because of this
TEST(Distribution, the_log_probability_of_a_draw_is_the_recomputed_one_to_the_bit) {
  at::manual_seed(2);
  auto discrete = categorical({5, 3});
  auto logits = at::randn({33, 8}), mask = (at::rand({33, 8}) < 0.7).to(at::kByte);
  mask.select(1, 0).fill_(1), mask.select(1, 5).fill_(1);
  auto category = empty_actions(discrete, 33);
  auto drawn = sample(discrete, {logits, {}, mask}, ActMode::sample, key(), 0, category);
  EXPECT_TRUE(close(log_prob(discrete, {logits, {}, mask}, category).log_prob, drawn, 0));
  auto mean = at::randn({33, 3}), log_std = at::randn({3});
  auto action = empty_actions(gaussian(3), 33);
  drawn = sample(gaussian(3), {mean, log_std, {}}, ActMode::sample, key(), 0, action);
  EXPECT_TRUE(close(log_prob(gaussian(3), {mean, log_std, {}}, action).log_prob, drawn, 0));
}

TEST(Distribution, a_rows_draw_does_not_depend_on_how_rows_are_cut) {
  auto spec = categorical({6});
  at::manual_seed(4);
  auto logits = at::randn({50, 6});
  auto whole = empty_actions(spec, 50), other_step = empty_actions(spec, 50);
  sample(spec, {logits, {}, {}}, ActMode::sample, key(), 0, whole);
  for (int64_t begin = 0; begin < 50; begin += 16) {
    const int64_t count = std::min<int64_t>(16, 50 - begin);
    auto part = empty_actions(spec, count);
    sample(spec, {logits.narrow(0, begin, count), {}, {}}, ActMode::sample, key(), begin, part);
    EXPECT_TRUE(close(part, whole.narrow(0, begin, count), 0));
  }
  sample(spec, {logits, {}, {}}, ActMode::sample, key(1), 0, other_step);
  EXPECT_FALSE(at::equal(other_step, whole));
}

}  // namespace
}  // namespace maglev
