#include "algos/dreamer/reference/returns.h"

#include <cmath>
#include <vector>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "algos/dreamer/model_shape.h"
#include "algos/dreamer/observation.h"

namespace maglev::dreamer {
namespace {

constexpr auto kF64 = at::kDouble;

at::Tensor bins64() { return symexp_bins(at::TensorOptions(kF64)); }

TEST(SymexpBins, are_even_in_symlog_space_and_symmetric) {
  const auto bins = bins64();
  ASSERT_EQ(bins.size(0), kBins);
  for (int64_t b = 0; b < kBins; ++b) {
    const double place = -20 + 40.0 * double(b) / double(kBins - 1);
    const double value = std::copysign(std::exp(std::abs(place)) - 1, place);
    EXPECT_NEAR(bins[b].item<double>(), value, 1e-9 * std::max(1.0, std::abs(value)));
    EXPECT_EQ(bins[b].item<double>(), -bins[kBins - 1 - b].item<double>());
  }
  EXPECT_EQ(bins[kBins / 2].item<double>(), 0);
}

TEST(Symexp, is_the_inverse_of_symlog) {
  const auto x = at::tensor(std::vector<double>{-1e6, -3, -1e-9, 0, 1e-9, 0.5, 2, 1e8});
  EXPECT_TRUE(at::allclose(symexp(symlog(x)), x, 1e-12, 1e-24));
  EXPECT_NEAR(symlog(x)[6].item<double>(), std::log(3.0), 1e-15);
}

TEST(BinnedMean, is_exactly_nothing_at_first) {
  const auto bins = symexp_bins(at::TensorOptions(at::kFloat));
  EXPECT_EQ(binned_mean(at::zeros({3, kBins}), bins).abs().max().item<float>(), 0);
}

// cross-entropy to a code that is written out, bin by bin
double naive_loss(const at::Tensor& logits, double x) {
  const auto bins = bins64();
  const double* b = bins.const_data_ptr<double>();
  const double* l = logits.const_data_ptr<double>();
  double total = 0, code[kBins] = {};
  for (int64_t i = 0; i < kBins; ++i) total += std::exp(l[i]);
  if (x <= b[0]) {
    code[0] = 1;
  } else if (x >= b[kBins - 1]) {
    code[kBins - 1] = 1;
  } else {
    for (int64_t i = 0; i + 1 < kBins; ++i)
      if (b[i] <= x && x < b[i + 1])
        code[i + 1] = (x - b[i]) / (b[i + 1] - b[i]), code[i] = 1 - code[i + 1];
  }
  double loss = 0;
  for (int64_t i = 0; i < kBins; ++i) loss -= code[i] * (l[i] - std::log(total));
  return loss;
}

TEST(TwoHotCode, is_of_the_two_bins_beside_a_number) {
  at::manual_seed(1);
  const auto bins = bins64();
  const std::vector<double> numbers{-1e12, bins[0].item<double>(),   -7.3, -1e-3, 0, 1e-3, 0.2, 1,
                                    123.4, bins[200].item<double>(), 4e8,  1e12};
  const auto logits = at::randn({int64_t(numbers.size()), kBins}, kF64);
  const auto loss = cross_entropy(logits, two_hot_code(at::tensor(numbers), bins));
  for (size_t i = 0; i < numbers.size(); ++i)
    EXPECT_NEAR(loss[int64_t(i)].item<double>(), naive_loss(logits[int64_t(i)], numbers[i]), 1e-12)
        << numbers[i];
}

TEST(TwoHotCode, has_its_number_for_a_mean) {
  const auto bins = bins64();
  const auto numbers = at::tensor(std::vector<double>{-4e8, -5, 0, 0.3, 1000});
  const auto code = two_hot_code(numbers, bins);
  EXPECT_TRUE(at::allclose((code * bins).sum(-1), numbers, 1e-9, 1e-12));
  EXPECT_TRUE(at::allclose(code.sum(-1), at::ones({5}, kF64), 1e-12, 0));
  EXPECT_LE((code > 0).sum(-1).max().item<int64_t>(), 2);
}

// the mixture of n-step returns that the recursion stands for
double mixed_returns(const Trajectory& s, int64_t t, int64_t n, double discount, double lambda) {
  const int64_t T = s.reward.size(0) - 1;
  const auto of = [n](const at::Tensor& x, int64_t step) { return x[step][n].item<double>(); };
  double mixture = 0, got = 0, reach = 1, share = 1;
  for (int64_t k = t + 1; k <= T; ++k) {
    got += reach * of(s.reward, k);
    reach *= discount * (1 - of(s.terminated, k));
    const double more = k == T ? 0 : lambda * (1 - of(s.ended, k));
    mixture += share * (1 - more) * (got + reach * of(s.value, k));
    share *= more;
  }
  return mixture;
}

TEST(LambdaReturns, are_the_mixture_of_all_longer_returns) {
  at::manual_seed(3);
  const int64_t T = 9, N = 5;
  const auto ended = (at::rand({T + 1, N}, kF64) < 0.2).to(kF64);
  const Trajectory steps{.reward = at::randn({T + 1, N}, kF64),
                         .value = at::randn({T + 1, N}, kF64),
                         .terminated = ended * at::rand({T + 1, N}, kF64),
                         .ended = ended};
  for (double lambda : {0.0, 0.95, 1.0}) {
    const auto returns = lambda_returns(steps, 0.9, lambda);
    ASSERT_EQ(returns.sizes(), at::IntArrayRef({T, N}));
    for (int64_t t = 0; t < T; ++t)
      for (int64_t n = 0; n < N; ++n)
        EXPECT_NEAR(returns[t][n].item<double>(), mixed_returns(steps, t, n, 0.9, lambda), 1e-12);
  }
}

TEST(LambdaReturns, look_behind_no_end) {
  const auto column = [](std::vector<double> x) { return at::tensor(x).unsqueeze(1); };
  // step 2 is terminated: nothing behind it counts
  const auto returns = lambda_returns({.reward = column({0, 1, 2, 100}),
                                       .value = column({50, 50, 50, 50}),
                                       .terminated = column({0, 0, 1, 0}),
                                       .ended = column({0, 0, 1, 0})},
                                      0.5, 1.0);
  EXPECT_EQ(returns[1].item<double>(), 2);
  EXPECT_EQ(returns[0].item<double>(), 1 + 0.5 * 2);
  // of one that was cut off the value counts, and nothing behind it
  const auto cut = lambda_returns({.reward = column({0, 1, 2, 100}),
                                   .value = column({50, 50, 50, 50}),
                                   .terminated = column({0, 0, 0, 0}),
                                   .ended = column({0, 0, 1, 0})},
                                  0.5, 1.0);
  EXPECT_EQ(cut[1].item<double>(), 2 + 0.5 * 50);
}

TEST(MovedRange, follows_the_percentiles_and_is_at_least_one) {
  auto range = at::tensor(std::vector<double>{0, 10});
  const auto x = at::arange(0, 101, kF64).flip(0);
  EXPECT_NEAR(moved_range(range, x, 0.1).item<double>(), 0.9 * 10 + 0.1 * 90, 1e-12);
  EXPECT_NEAR(range[0].item<double>(), 0.5, 1e-12);
  EXPECT_NEAR(range[1].item<double>(), 9 + 9.5, 1e-12);
  // between two numbers it is interpolated
  range.zero_();
  moved_range(range, at::tensor(std::vector<double>{0, 1}), 1);
  EXPECT_NEAR(range[1].item<double>(), 0.95, 1e-12);
  range.zero_();
  EXPECT_EQ(moved_range(range, at::zeros({5}, kF64), 0.5).item<double>(), 1);
}

TEST(MovedRange, leaves_out_what_counts_for_nothing) {
  const auto x = at::arange(0, 101, kF64).flip(0);
  const auto weight = (x < 50.5).to(at::kFloat) * 1.5;
  auto some = at::zeros({2}, kF64), those = at::zeros({2}, kF64);
  moved_range(some, x, 1, weight), moved_range(those, at::arange(0, 51, kF64), 1);
  EXPECT_TRUE(at::equal(some, those)) << some;
  // of none nothing moves
  moved_range(some, x, 1, at::zeros_like(weight));
  EXPECT_TRUE(at::equal(some, those)) << some;
}

TEST(Divergence, is_summed_over_the_categoricals) {
  at::manual_seed(4);
  const auto p = at::log_softmax(at::randn({2, 3, 4}, kF64), -1),
             q = at::log_softmax(at::randn({2, 3, 4}, kF64), -1);
  const auto all = divergence(p, q);
  for (int64_t n = 0; n < 2; ++n) {
    double sum = 0;
    for (int64_t s = 0; s < 3; ++s)
      for (int64_t c = 0; c < 4; ++c) {
        const double from = p[n][s][c].item<double>();
        sum += std::exp(from) * (from - q[n][s][c].item<double>());
      }
    EXPECT_NEAR(all[n].item<double>(), sum, 1e-12);
  }
  EXPECT_EQ(divergence(p, p).abs().max().item<double>(), 0);
}

}  // namespace
}  // namespace maglev::dreamer
