#include "algos/dreamer/rssm.h"

#include <cmath>
#include <map>
#include <string>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <gtest/gtest.h>

#include "algos/dreamer/policy.h"

namespace maglev::dreamer {
namespace {

ModelShape small_shape() {
  return {.vector = 3,
          .actions = 2,
          .deter = 12,
          .hidden = 5,
          .stoch = 3,
          .classes = 4,
          .blocks = 4,
          .depth = 2,
          .units = 6,
          .unimix = 0.01};
}

std::shared_ptr<Rssm> rssm64(const ModelShape& shape) {
  Initializer init(3);
  auto rssm = std::make_shared<Rssm>(shape, init);
  rssm->to(at::kDouble);
  at::NoGradGuard no_grad;
  // biases and scales that are not what they begin at
  at::manual_seed(9);
  for (auto& p : rssm->parameters()) p.add_(0.1 * at::randn_like(p));
  return rssm;
}

using Vector = std::vector<double>;

double silu(double x) { return x / (1 + std::exp(-x)); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// one row through the formulas, number by number
class NaiveStep {
 public:
  NaiveStep(const Rssm& rssm, const ModelShape& shape) : shape_(shape) {
    for (const auto& p : rssm.named_parameters()) weights_[p.key()] = p.value().detach();
  }

  Vector operator()(const Vector& h, const Vector& z, Vector a) const {
    const size_t D = size_t(shape_.deter), g = size_t(shape_.blocks), part = D / g;
    for (double& x : a) x /= std::max(1.0, std::abs(x));
    Vector shared;
    for (const auto& [name, input] :
         {std::pair{"from_deter", &h}, {"from_stoch", &z}, {"from_action", &a}}) {
      const auto x =
          normed(dense(*input, std::string(name) + ".dense0"), std::string(name) + ".norm0");
      shared.insert(shared.end(), x.begin(), x.end());
    }
    Vector mixed;
    for (size_t b = 0; b < g; ++b) {
      Vector input(h.begin() + long(b * part), h.begin() + long((b + 1) * part));
      input.insert(input.end(), shared.begin(), shared.end());
      const auto x = block(input, "mix", b);
      mixed.insert(mixed.end(), x.begin(), x.end());
    }
    mixed = normed(mixed, "mix_norm");
    Vector next(D);
    for (size_t b = 0; b < g; ++b) {
      const auto gates =
          block({mixed.begin() + long(b * part), mixed.begin() + long((b + 1) * part)}, "gates", b);
      for (size_t i = 0; i < part; ++i) {
        const double candidate = std::tanh(sigmoid(gates[i]) * gates[part + i]);
        const double update = sigmoid(gates[2 * part + i] - 1);
        next[b * part + i] = update * candidate + (1 - update) * h[b * part + i];
      }
    }
    return next;
  }

 private:
  Vector dense(const Vector& x, const std::string& name) const {
    const auto w = weights_.at(name + ".weight"), bias = weights_.at(name + ".bias");
    Vector y;
    for (int64_t o = 0; o < w.size(0); ++o) {
      double sum = bias[o].item<double>();
      for (size_t i = 0; i < x.size(); ++i) sum += w[o][int64_t(i)].item<double>() * x[i];
      y.push_back(sum);
    }
    return y;
  }
  Vector block(const Vector& x, const std::string& name, size_t b) const {
    const auto w = weights_.at(name + ".weight")[int64_t(b)];
    Vector y;
    for (int64_t o = 0; o < w.size(1); ++o) {
      double sum = weights_.at(name + ".bias")[int64_t(b) * w.size(1) + o].item<double>();
      for (size_t i = 0; i < x.size(); ++i) sum += w[int64_t(i)][o].item<double>() * x[i];
      y.push_back(sum);
    }
    return y;
  }
  Vector normed(Vector x, const std::string& name) const {
    double squares = 0;
    for (double v : x) squares += v * v;
    const double size = std::sqrt(squares / double(x.size()) + 1e-4);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = silu(x[i] / size * weights_.at(name + ".scale")[int64_t(i)].item<double>());
    return x;
  }

  ModelShape shape_;
  std::map<std::string, at::Tensor> weights_;
};

Vector numbers(const at::Tensor& x) {
  const auto row = x.contiguous();
  return {row.const_data_ptr<double>(), row.const_data_ptr<double>() + row.numel()};
}

TEST(Rssm, a_row_that_nobody_acted_for_is_of_no_class) {
  const ModelShape shape = small_shape();
  const ExtraColumn column = state_columns(shape)[1];
  const auto stoch = at::full({3, shape.stoch}, column.unwritten, at::TensorOptions(column.dtype));
  EXPECT_EQ(one_hot(stoch, kMostClasses, at::kFloat).count_nonzero().item<int64_t>(), 0);
}

TEST(Rssm, moves_its_recurrent_state_as_the_formulas_say) {
  const ModelShape shape = small_shape();
  const auto rssm = rssm64(shape);
  at::manual_seed(2);
  const Latent latent{at::randn({3, shape.deter}, at::kDouble),
                      at::rand({3, shape.flat_stoch()}, at::kDouble)};
  // some actions are beyond their bounds
  const auto action = 2 * at::randn({3, shape.actions}, at::kDouble);
  const auto next = rssm->next_deter(latent, action).detach();
  const NaiveStep naive(*rssm, shape);
  for (int64_t n = 0; n < 3; ++n) {
    const auto expected =
        naive(numbers(latent.deter[n]), numbers(latent.stoch[n]), numbers(action[n]));
    for (int64_t i = 0; i < shape.deter; ++i)
      EXPECT_NEAR(next[n][i].item<double>(), expected[size_t(i)], 1e-12);
  }
}

// the paths through which a gradient is exact: recurrent state, action within bounds and weights
TEST(Rssm, has_the_gradients_of_its_differences) {
  const ModelShape shape = small_shape();
  const auto rssm = rssm64(shape);
  at::manual_seed(5);
  auto deter = at::randn({2, shape.deter}, at::kDouble).requires_grad_();
  auto action = (at::rand({2, shape.actions}, at::kDouble) - 0.5).requires_grad_();
  const auto stoch = at::rand({2, shape.flat_stoch()}, at::kDouble);
  const auto weights = at::randn({2, shape.deter}, at::kDouble);
  const auto token = at::randn({2, shape.token()}, at::kDouble);
  const auto loss = [&] {
    const auto next = rssm->next_deter({deter, stoch}, action);
    return (next * weights).sum() + rssm->prior(next).select(-1, 1).sum() +
           rssm->posterior(next, token).select(-1, 2).sum();
  };
  loss().backward();
  std::vector<at::Tensor> inputs{deter, action};
  for (const auto& p : rssm->parameters()) inputs.push_back(p);
  constexpr double kStep = 1e-6;
  at::NoGradGuard no_grad;
  for (const auto& input : inputs)
    for (int64_t i = 0; i < std::min<int64_t>(input.numel(), 7); ++i) {
      auto place = input.view(-1)[i * (input.numel() - 1) / 6 % input.numel()];
      const double before = place.item<double>();
      place.fill_(before + kStep);
      const double above = loss().item<double>();
      place.fill_(before - kStep);
      const double below = loss().item<double>();
      place.fill_(before);
      const double slope = (above - below) / (2 * kStep);
      const double ours =
          input.grad().view(-1)[i * (input.numel() - 1) / 6 % input.numel()].item<double>();
      EXPECT_NEAR(ours, slope, 1e-7 * std::max(1.0, std::abs(slope)));
    }
}

TEST(MixedLogProbs, leave_no_category_below_its_share_of_the_mixture) {
  const auto probs = mixed_log_probs(at::tensor(std::vector<double>{50, 0, -50, 0}), 0.01).exp();
  EXPECT_NEAR(probs.sum().item<double>(), 1, 1e-12);
  EXPECT_NEAR(probs[0].item<double>(), 0.99 + 0.0025, 1e-12);
  EXPECT_NEAR(probs[2].item<double>(), 0.0025, 1e-12);
}

TEST(DrawnCategory, comes_as_often_as_it_is_likely) {
  const auto probs = at::tensor(std::vector<double>{0.1, 0.2, 0, 0.7});
  const int64_t draws = 1000;
  const auto uniforms = (at::arange(draws, at::kDouble) + 0.5) / double(draws);
  const auto counts =
      at::bincount(drawn_category(probs.expand({draws, 4}), uniforms), {}, /*minlength=*/4);
  EXPECT_EQ(counts[0].item<int64_t>(), 100);
  EXPECT_EQ(counts[1].item<int64_t>(), 200);
  EXPECT_EQ(counts[2].item<int64_t>(), 0);
  EXPECT_EQ(counts[3].item<int64_t>(), 700);
}

TEST(DrawnStoch, is_one_category_with_the_gradient_of_all) {
  at::manual_seed(3);
  auto logits = at::randn({2, 3, 4}, at::kDouble).requires_grad_();
  const auto drawn = drawn_stoch(mixed_log_probs(logits, 0.01), at::rand({2, 3}, at::kDouble));
  EXPECT_TRUE(at::equal(drawn.view({2, 3, 4}).sum(-1), at::ones({2, 3}, at::kDouble)));
  EXPECT_EQ((drawn == 1).sum().item<int64_t>(), 6);
  const auto weights = at::randn({2, 12}, at::kDouble);
  (drawn * weights).sum().backward();
  const auto through_draws = logits.grad().clone();
  logits.mutable_grad().zero_();
  (mixed_log_probs(logits, 0.01).exp().flatten(-2) * weights).sum().backward();
  EXPECT_TRUE(at::allclose(through_draws, logits.grad(), 1e-12, 1e-15));
}

}  // namespace
}  // namespace maglev::dreamer
