#include "algos/ppo/leash.h"

#include <cmath>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <gtest/gtest.h>

#include "engine/device/tolerance.h"
#include "tests/close.h"
#include "tests/random_rollouts.h"

namespace maglev {
namespace {

constexpr int64_t kHeldRows = 33;
constexpr double kPrice = 0.3;

ppo::Options leashed(double price = kPrice) {
  auto options = small();
  options.leash = price;
  return options;
}

AlgoContext context_with(const EnvSpec& spec, ThreadPool& pool) {
  return {.spec = spec, .rows = kHeldRows, .total_steps = 1'000'000, .seed = 3, .pool = &pool};
}

/// What `policy` says of the rollout's actions, by the plain functions: [T, rows].
at::Tensor said_by(const ppo::PpoPolicy& policy, const EnvSpec& spec, const Batch& batch) {
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> steps;
  for (int64_t t = 0; t < batch.reward.size(0); ++t) {
    std::vector<at::Tensor> obs;
    for (const auto& o : batch.obs) obs.push_back(o[t]);
    const auto out = policy.forward(policy.network(), obs, {.policy = true, .value = false});
    const DistParams dist{out.logits, policy.network().log_std(),
                          batch.mask.defined() ? batch.mask[t] : at::Tensor()};
    steps.push_back(log_prob(spec.action, dist, batch.action[t]).log_prob);
  }
  return at::stack(steps);
}

TEST(Leash, a_reward_pays_for_how_much_likelier_its_action_became) {
  for (const auto& spec : {vectors(), masked_heads(), one_continuous(), cells()}) {
    // a policy that has learned, and one that was made alike and has not
    RandomRollouts moved(spec, kHeldRows, small()), still(spec, kHeldRows, small());
    moved.update(0), moved.update(1);
    const Batch& batch = moved.collect(2);
    ThreadPool pool(2);
    ppo::Leash leash(leashed(), context_with(spec, pool));
    Metrics metrics(at::kCPU);
    const Batch& priced = leash.applied(batch, metrics);

    const auto counts = 1 - batch.is_first.narrow(0, 1, batch.reward.size(0)).to(at::kFloat);
    const auto drift =
        (batch.extra[ppo::log_prob_column] - said_by(still.ppo.policy(), spec, batch)) * counts;
    EXPECT_GT(drift.abs().max().item<float>(), 1e-2) << "the policy did not move";
    EXPECT_TRUE(close(priced.reward, batch.reward - kPrice * drift, 1e-5))
        << spec.observations[0].name;
    // a step that only resets has reward 0
    EXPECT_EQ((priced.reward * (1 - counts)).abs().max().item<float>(), 0);
    EXPECT_NE(priced.reward.data_ptr(), batch.reward.data_ptr()) << "the environments' column";
    const auto told = metrics.take();
    ASSERT_EQ(told.size(), 1u);
    EXPECT_EQ(told[0].first, "loss/leash_kl");
    EXPECT_NEAR(told[0].second, (drift.sum() / counts.sum()).item<double>(), 1e-5);
  }
}

// as of several processes, whose episodes begin at other steps
TEST(Leash, tells_the_divergence_of_all_steps_that_count) {
  RandomRollouts moved(vectors(), kHeldRows, small()), still(vectors(), kHeldRows, small());
  moved.update(0), moved.update(1);
  ThreadPool pool(1);
  ppo::Leash leash(leashed(), context_with(vectors(), pool));
  Metrics metrics(at::kCPU);
  double drift = 0, steps = 0;
  for (int64_t i : {2, 3}) {
    const Batch& batch = moved.collect(i);
    const int64_t T = batch.reward.size(0);
    // of the second rollout a single time step counts
    if (i == 3) batch.is_first.narrow(0, 2, T - 1).fill_(1), batch.is_first[1].zero_();
    const auto counts = 1 - batch.is_first.narrow(0, 1, T).to(at::kFloat);
    const auto more =
        batch.extra[ppo::log_prob_column] - said_by(still.ppo.policy(), vectors(), batch);
    drift += (more * counts).sum().item<double>(), steps += counts.sum().item<double>();
    leash.applied(batch, metrics);
  }
  EXPECT_NEAR(metrics.take()[0].second, drift / steps, 1e-5);
}

TEST(Leash, costs_nothing_where_the_policy_is_the_one_it_is_held_by) {
  for (const auto& spec : {vectors(), one_continuous(), cells()}) {
    auto options = leashed();
    options.network.normalize_obs = true;
    RandomRollouts moved(spec, kHeldRows, options);
    moved.update(0), moved.update(1);
    ThreadPool pool(1);
    ppo::Leash leash(options, context_with(spec, pool));
    leash.hold(moved.ppo.policy());
    const Batch& batch = moved.collect(2);
    Metrics metrics(at::kCPU);
    EXPECT_TRUE(close(leash.applied(batch, metrics).reward, batch.reward, 1e-5));
  }
}

TEST(Leash, is_the_same_for_any_number_of_threads) {
  RandomRollouts moved(vectors(), kHeldRows, small());
  moved.update(0);
  const Batch& batch = moved.collect(1);
  std::vector<at::Tensor> rewards;
  for (int threads : {1, 3}) {
    ThreadPool pool(threads);
    ppo::Leash leash(leashed(), context_with(vectors(), pool));
    Metrics metrics(at::kCPU);
    rewards.push_back(leash.applied(batch, metrics).reward.clone());
  }
  EXPECT_TRUE(at::equal(rewards[0], rewards[1]));
}

TEST(Leash, an_update_is_one_without_it_that_learns_from_the_priced_rewards) {
  RandomRollouts held(vectors(), kHeldRows, leashed()), free(vectors(), kHeldRows, small()),
      other(vectors(), kHeldRows, small());
  ThreadPool pool(1);
  ppo::Leash leash(leashed(), context_with(vectors(), pool));
  Metrics metrics(at::kCPU);
  for (int64_t i = 0; i < 3; ++i) {
    const Batch& batch = held.collect(i);
    // learning writes values into the rollout: each has its own
    Batch copy = leash.applied(batch, metrics);
    for (auto* column : {&copy.extra[0], &copy.extra[1], &copy.reward}) *column = column->clone();
    Batch unpriced = copy;
    unpriced.reward = batch.reward;
    unpriced.extra[ppo::value_column] = copy.extra[ppo::value_column].clone();
    held.learn(batch), free.learn(copy), other.learn(unpriced);
    EXPECT_TRUE(at::equal(held.weights(), free.weights())) << i;
  }
  EXPECT_FALSE(at::equal(held.weights(), other.weights()));
}

// what is random teaches nothing: a policy that is pulled back stays nearer to where it began
TEST(Leash, a_shorter_one_keeps_the_policy_nearer) {
  const auto strayed = [](double price) {
    RandomRollouts rollouts(vectors(), kHeldRows, leashed(price));
    for (int64_t i = 0; i < 10; ++i) rollouts.update(i);
    rollouts.figures();
    rollouts.update(10);
    return rollouts.figure("loss/leash_kl");
  };
  const double free = strayed(1e-9), held = strayed(10);
  EXPECT_GT(free, 0);
  EXPECT_LT(std::abs(held), free / 2);
}

}  // namespace
}  // namespace maglev
