#include "engine/play/quantiliser.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "tests/errors.h"

namespace maglev {
namespace {

/// Says the same of every row.
class Says : public Policy {
 public:
  explicit Says(at::Tensor probabilities) : log_probs_(probabilities.log()) {}

  int64_t block_rows() const override { return 64; }
  void act(TimeStep&, Carry&, ActMode, const ActKey&) override {}
  at::Tensor log_probs(const TimeStep& step) override {
    return log_probs_.expand({step.rows(), log_probs_.size(0)});
  }
  void visit_state(StateVisitor&) override {}

 private:
  at::Tensor log_probs_;
};

/// Says nothing, as a policy of numbers does.
class Silent : public Says {
 public:
  Silent() : Says(at::ones({4})) {}
  at::Tensor log_probs(const TimeStep&) override { return {}; }
};

at::Tensor row(std::vector<float> values) { return at::tensor(values).unsqueeze(0); }

at::Tensor of_shares(std::vector<float> base, std::vector<float> preference, double share) {
  return quantilised(row(std::move(base)).log(), row(std::move(preference)), share);
}

TEST(Quantiliser, keeps_the_bases_mass_from_what_is_liked_best) {
  // liked from the last to the first: 0.1, then 0.15 of 0.2
  EXPECT_TRUE(at::allclose(of_shares({0.4f, 0.3f, 0.2f, 0.1f}, {-4, -3, -2, -1}, 0.25),
                           row({0, 0, 0.6f, 0.4f}), 0, 1e-6));
  // all of it is the base, next to nothing of it the one liked best
  EXPECT_TRUE(at::allclose(of_shares({0.4f, 0.3f, 0.2f, 0.1f}, {-1, -3, -2, -4}, 1),
                           row({0.4f, 0.3f, 0.2f, 0.1f}), 0, 1e-6));
  EXPECT_TRUE(at::allclose(of_shares({0.4f, 0.3f, 0.2f, 0.1f}, {-3, -1, -2, -4}, 1e-3),
                           row({0, 1, 0, 0}), 0, 1e-6));
  // among equals the first
  EXPECT_TRUE(at::allclose(of_shares({0.5f, 0.5f}, {-1, -1}, 0.5), row({1, 0}), 0, 1e-6));
  // what the base never does is not done
  EXPECT_TRUE(at::allclose(of_shares({0, 0.5f, 0.5f}, {-1, -2, -3}, 0.5), row({0, 1, 0}), 0, 1e-6));
}

TEST(Quantiliser, makes_no_action_likelier_than_the_share_allows) {
  at::manual_seed(5);
  const auto base = at::log_softmax(at::randn({200, 8}), 1), likes = at::randn({200, 8});
  for (double share : {0.05, 0.3, 0.9}) {
    const auto kept = quantilised(base, likes, share);
    EXPECT_TRUE(at::allclose(kept.sum(1), at::ones({200}), 0, 1e-5));
    EXPECT_LE((kept * share - base.exp()).max().item<float>(), 1e-6) << share;
  }
}

TEST(Quantiliser, acts_by_it) {
  constexpr int64_t kRows = 4000;
  const EnvSpec spec{.action = {.heads = {4}}};
  Says base(at::tensor({0.4f, 0.3f, 0.2f, 0.1f})), likes(at::tensor({0.1f, 0.2f, 0.3f, 0.4f}));
  TimeStep step;
  step.is_first = at::zeros({kRows}, at::kByte);
  step.action = at::zeros({kRows, 1}, at::kInt);
  Carry carry;
  const auto shares = [&](ActMode mode) {
    Quantiliser player(likes, base, 0.25, mode, spec);
    player.act(step, carry, {.seed = 1, .purpose = Purpose::eval});
    return at::bincount(step.action.flatten().to(at::kLong), {}, 4).to(at::kDouble) / kRows;
  };
  const auto drawn = shares(ActMode::sample);
  EXPECT_EQ(drawn[0].item<double>() + drawn[1].item<double>(), 0);
  // four deviations of a share of 0.6 among 4,000
  EXPECT_NEAR(drawn[2].item<double>(), 0.6, 0.031);
  EXPECT_EQ(shares(ActMode::mean)[2].item<double>(), 1);
}

TEST(Quantiliser, refuses_what_it_cannot_order) {
  Says one(at::ones({4}));
  const auto made = [&](const ActionSpec& action, double share) {
    return error_of(
        [&] { Quantiliser(one, one, share, ActMode::sample, EnvSpec{.action = action}); });
  };
  EXPECT_TRUE(contains(made({.heads = {4}}, 0), "above 0 and at most 1"));
  EXPECT_TRUE(contains(made({.heads = {4}}, 1.5), "above 0 and at most 1"));
  EXPECT_TRUE(contains(made({.heads = {2, 2}}, 0.5), "2 choices at once"));
  EXPECT_TRUE(contains(made({.low = {-1}, .high = {1}}, 0.5), "numbers"));
  Silent silent;
  Quantiliser player(one, silent, 0.5, ActMode::sample, EnvSpec{.action = {.heads = {4}}});
  TimeStep step;
  step.is_first = at::zeros({1}, at::kByte);
  Carry carry;
  EXPECT_TRUE(contains(error_of([&] { player.act(step, carry, {}); }), "how likely"));
}

}  // namespace
}  // namespace maglev
