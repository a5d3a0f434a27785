#include "kernels/ppo_loss/ppo_loss.h"

#include <cmath>
#include <limits>
#include <vector>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "kernels/policy/policy_op.h"
#include "kernels/ppo_loss/ppo_loss_op.h"
#include "kernels/ppo_loss/ppo_scalars.h"
#include "tests/close.h"

namespace maglev {
namespace {

ActionSpec loss_heads(std::vector<int64_t> sizes) { return {.heads = std::move(sizes)}; }

// mean 0, scale 1, one row counts whole, clip 0.2, no entropy bonus, the value does not count
at::Tensor plain_scalars() {
  return packed({.advantage_mean = 0, .advantage_scale = 1, .inverse_count = 1, .clip = 0.2f});
}

at::Tensor some_scalars() {
  return packed({.advantage_mean = 0.1f,
                 .advantage_scale = 2,
                 .inverse_count = 0.1f,
                 .clip = 0.2f,
                 .value_clip = 0.3f,
                 .entropy_coef = 0.01f});
}

// one row of two categories with equal logits: log-probability -log 2
struct OneRow {
  PpoLossBatch batch{.index = at::zeros({1}, at::kLong),
                     .rollout = {.action = at::zeros({1, 1}, at::kInt),
                                 .old_log_prob = at::full({1}, -std::log(2.f)),
                                 .advantage = at::ones({1}),
                                 .target = at::zeros({1}),
                                 .old_value = at::zeros({1}),
                                 .valid = at::ones({1})},
                     .settings = {.value_coef = 0},
                     .scalars = plain_scalars()};
  at::Tensor value = at::zeros({1}), figures = at::zeros({int64_t(kPpoFigures)});

  // gradient of the chosen category's logit
  float gradient() {
    auto logits = at::zeros({1, 2}).requires_grad_(true);
    ppo_loss(loss_heads({2}), logits, {}, value, batch, figures).backward();
    return logits.grad()[0][0].item<float>();
  }
};

// d ratio / d logit = p (1 - p) / p_old = 0.5 at ratio 1
TEST(PpoLoss, passes_the_gradient_on_where_nothing_is_clipped) {
  OneRow row;
  EXPECT_FLOAT_EQ(row.gradient(), -0.5f);
  EXPECT_FLOAT_EQ(row.figures[kPpoPolicy].item<float>(), -1.f);
  EXPECT_EQ(row.figures[kPpoApproxKl].item<float>(), 0.f);
}

TEST(PpoLoss, passes_nothing_on_where_the_clipped_side_is_smaller) {
  OneRow row;
  row.batch.rollout.old_log_prob.sub_(1.f);  // ratio e, gaining: clipped
  EXPECT_EQ(row.gradient(), 0.f);
  EXPECT_FLOAT_EQ(row.figures[kPpoPolicy].item<float>(), -1.2f);
  EXPECT_EQ(row.figures[kPpoClipFraction].item<float>(), 1.f);
  row.batch.rollout.advantage.neg_();  // losing: the way back is open
  EXPECT_FLOAT_EQ(row.gradient(), 0.5f * std::exp(1.f));
}

TEST(PpoLoss, an_invalid_row_adds_exactly_nothing_even_if_it_is_not_finite) {
  at::manual_seed(1);
  const int64_t B = 20;
  auto logits = at::randn({B, 3}), value = at::randn({B});
  PpoLossBatch batch{.index = at::arange(B),
                     .rollout = {.action = at::randint(3, {B, 1}).to(at::kInt),
                                 .old_log_prob = at::randn({B}),
                                 .advantage = at::randn({B}),
                                 .target = at::randn({B}),
                                 .old_value = at::randn({B}),
                                 .valid = at::ones({B})},
                     .scalars = some_scalars()};
  batch.rollout.valid[7] = 0;
  std::vector<at::Tensor> results;
  for (float poison : {0.f, std::numeric_limits<float>::quiet_NaN()}) {
    auto l = logits.clone(), v = value.clone(), figures = at::zeros({int64_t(kPpoFigures)});
    l[7].add_(poison), v[7].add_(poison), batch.rollout.advantage[7] += poison;
    l.requires_grad_(true), v.requires_grad_(true);
    ppo_loss(loss_heads({3}), l, {}, v, batch, figures).backward();
    EXPECT_TRUE(close(l.grad()[7], at::zeros({3}), 0));
    EXPECT_EQ(v.grad()[7].item<float>(), 0.f);
    results.push_back(at::cat({l.grad().flatten(), v.grad(), figures}));
  }
  EXPECT_TRUE(close(results[1], results[0], 0));
}

// the ratio is exactly 1 until the weights move
TEST(PpoLoss, a_policy_that_did_not_move_has_no_deviation_at_all) {
  at::manual_seed(2);
  const int64_t B = 100;
  auto spec = loss_heads({4, 3});
  auto logits = at::randn({B, 7});
  auto action = at::zeros({B, 2}, at::kInt);
  auto log_prob = policy_sample(spec, {.logits = logits}, ActMode::sample, {.seed = 3}, 0, action);
  PpoLossBatch batch{.index = at::randperm(B),
                     .rollout = {.action = action,
                                 .old_log_prob = log_prob,
                                 .advantage = at::randn({B}),
                                 .target = at::randn({B}),
                                 .valid = at::ones({B})},
                     .scalars = plain_scalars()};
  auto figures = at::zeros({int64_t(kPpoFigures)});
  ppo_loss(spec, logits.index_select(0, batch.index), {}, at::zeros({B}), batch, figures);
  EXPECT_EQ(figures[kPpoRatioDeviation].item<float>(), 0.f);
  EXPECT_EQ(figures[kPpoApproxKl].item<float>(), 0.f);
}

// rows of a panel, and where a minibatch is cut, must not show in a row's gradient
TEST(PpoLoss, a_rows_gradient_is_the_same_wherever_it_stands) {
  at::manual_seed(3);
  const int64_t B = 64;
  auto logits = at::randn({B, 5}), value = at::randn({B});
  PpoLossBatch batch{.index = at::arange(B),
                     .rollout = {.action = at::randint(5, {B, 1}).to(at::kInt),
                                 .old_log_prob = at::randn({B}) - 1.5,
                                 .advantage = at::randn({B}),
                                 .target = at::randn({B}),
                                 .old_value = at::randn({B}),
                                 .valid = at::ones({B})},
                     .settings = {.clips_value = true, .value_clip_max = true},
                     .scalars = some_scalars()};
  auto gradients = [&](int64_t begin, int64_t count) {
    auto part = batch;
    part.index = batch.index.narrow(0, begin, count);
    auto l = logits.narrow(0, begin, count).clone().requires_grad_(true);
    auto v = value.narrow(0, begin, count).clone().requires_grad_(true);
    auto figures = at::zeros({int64_t(kPpoFigures)});
    ppo_loss(loss_heads({5}), l, {}, v, part, figures).backward();
    return at::cat({l.grad(), v.grad().unsqueeze(1)}, 1);
  };
  auto whole = gradients(0, B);
  for (int64_t begin : {0, 1, 17, 40})
    for (int64_t count : {1, 7, 16, 24})
      EXPECT_TRUE(close(gradients(begin, count), whole.narrow(0, begin, count), 0))
          << begin << " " << count;
}

TEST(PpoLoss, padding_gets_zeros_and_is_never_part_of_a_figure) {
  constexpr int64_t kStride = 48, kRows = 5, kHead = 2;
  alignas(64) float logits[kHead * kStride], value[kStride], d_logits[kHead * kStride],
      d_value[kStride];
  const std::vector<int64_t> index{4, 3, 2, 1, 0};
  const std::vector<int32_t> action{0, 1, 0, 1, 1};
  const std::vector<float> column{0.1f, -0.4f, -1.f, 0.3f, 0.5f}, valid(5, 1.f);
  const PpoLossScalars scalars{.advantage_mean = 0.1f,
                               .advantage_scale = 2,
                               .inverse_count = 0.2f,
                               .clip = 0.2f,
                               .value_clip = 0.3f,
                               .entropy_coef = 0.01f};
  std::vector<std::vector<double>> seen;
  for (float padding : {0.f, 1e30f, -1e30f}) {
    for (int64_t r = 0; r < kStride; ++r) {
      logits[r] = logits[kStride + r] = value[r] = padding;
      if (r < kRows) logits[r] = 0.2f * float(r), logits[kStride + r] = 0.f, value[r] = float(r);
    }
    std::fill_n(d_logits, kHead * kStride, 7.f), std::fill_n(d_value, kStride, 7.f);
    std::vector<double> figures(kPpoFigures);
    ppo_loss_cpu({.policy = {.heads = &kHead,
                             .head_count = 1,
                             .dims = 1,
                             .logits = logits,
                             .stride = kStride,
                             .rows = kRows},
                  .value = value,
                  .index = index.data(),
                  .action_i32 = action.data(),
                  .old_log_prob = column.data(),
                  .advantage = column.data(),
                  .target = column.data(),
                  .valid = valid.data(),
                  .scalars = &scalars,
                  .d_logits = d_logits,
                  .d_value = d_value,
                  .figures = figures.data()});
    for (int64_t r = kRows; r < kStride; ++r)
      EXPECT_TRUE(d_logits[r] == 0 && d_logits[kStride + r] == 0 && d_value[r] == 0) << r;
    EXPECT_NE(d_value[0], 0.f);
    seen.push_back(figures);
    EXPECT_EQ(seen.back(), seen.front());
  }
}

TEST(PpoScalars, a_step_that_was_left_out_tells_no_norm) {
  const float figures[kPpoFigures] = {}, counts = 1, lr = 1;
  for (float norm :
       {2.f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    float sums[kPpoFigures + 2] = {}, weights[kPpoFigures + 2] = {};
    ppo_report_step({.figures = figures,
                     .counts = &counts,
                     .norm = &norm,
                     .lr = &lr,
                     .to = {.sums = sums, .weights = weights}});
    EXPECT_EQ(sums[kPpoFigures], std::isfinite(norm) ? 2.f : 0.f);
    EXPECT_EQ(weights[kPpoFigures], std::isfinite(norm) ? 1.f : 0.f);
    EXPECT_EQ(weights[kPpoFigures + 1], 1.f);
  }
}

}  // namespace
}  // namespace maglev
