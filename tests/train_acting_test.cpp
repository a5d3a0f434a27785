// Acting as graphs on a device: of a player for rows chosen anew each time step, and of an
// evaluation. What is replayed is what the same player does when it is called.

#include <ATen/ATen.h>
#include <torch/cuda.h>

#include <gtest/gtest.h>

#include "engine/algo/experiment.h"
#include "engine/data/rollout.h"
#include "engine/host/machine.h"
#include "engine/play/evaluate.h"
#include "engine/play/seat.h"
#include "engine/run/snapshot.h"
#include "kernels/noise/noise_op.h"

namespace maglev {
namespace {

constexpr int64_t kSeatRows = 12;
const at::Device kCuda("cuda:0");

/// Two observations and a drawn number make an action, and the time steps that were played are
/// remembered: every number by itself, so that a row's bits know no other rows.
class RowPlayer : public Player {
 public:
  explicit RowPlayer(bool capturable) : Player("rows"), capturable_(capturable) {}
  bool capturable() const override { return capturable_; }
  Carry initial_carry(int64_t rows) override {
    return {{at::zeros({rows, 1}, at::TensorOptions(at::kFloat).device(kCuda))}};
  }
  void act(TimeStep& step, Carry& carry, const ActKey& key) override {
    auto drawn = at::zeros({step.rows(), 1}, step.action.options());
    noise_uniform_(drawn, {.seed = key.seed,
                           .stream = stream_id(key.purpose, uint64_t(step.first)),
                           .first = uint64_t(key.step),
                           .rows = step.rows(),
                           .count = 0,
                           .base = key.base,
                           .base_scale = 1,
                           .index = key.rows});
    carry.parts[0].add_(1);
    step.action.copy_(step.obs[0].sum(1, true) + drawn + 10 * carry.parts[0]);
  }

 private:
  bool capturable_;
};

/// A policy whose acting is never captured.
class Eager : public Policy {
 public:
  explicit Eager(Policy& policy) : policy_(&policy) {}
  int64_t block_rows() const override { return policy_->block_rows(); }
  Carry initial_carry(int64_t rows) const override { return policy_->initial_carry(rows); }
  void act(TimeStep& step, Carry& carry, ActMode mode, const ActKey& key) override {
    policy_->act(step, carry, mode, key);
  }
  void visit_state(StateVisitor& visitor) override { policy_->visit_state(visitor); }

 private:
  Policy* policy_;
};

class Acting_on_cuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device on this machine";
    claim_threads();
    spec_ = Experiment("ppo", "tug").spec();
    rollout_ = std::make_unique<Rollout>(
        spec_, RolloutShape{.T = 1, .rows = kSeatRows, .block_rows = kSeatRows},
        std::vector<ExtraColumn>{}, kCuda);
  }
  TimeStep& now() { return rollout_->step(0); }
  /// What is seen at time step `t`.
  void show(int64_t t) {
    at::manual_seed(uint64_t(t));
    now().obs[0].copy_(at::randn(now().obs[0].sizes()).to(kCuda));
    now().action.fill_(-1);
  }

  EnvSpec spec_;
  std::unique_ptr<Rollout> rollout_;
  ThreadPool pool_{1};
};

const std::vector<std::vector<int64_t>> kChosen{
    {3}, {0, 5, 7}, {11, 2, 4}, {1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {6, 9, 1}};

TEST(Buckets, are_powers_of_two_and_all_rows) {
  std::vector<int64_t> sizes;
  for (int64_t count = 1; count <= 12; ++count) sizes.push_back(bucket_rows(count, 12));
  EXPECT_EQ(sizes, (std::vector<int64_t>{1, 2, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12}));
}

TEST_F(Acting_on_cuda,
       in_buckets_is_that_of_the_rows_alone_to_the_bit_and_leaves_others_as_they_are) {
  GraphPool graphs(kCuda);
  RowPlayer replayed(true), called(false);
  Seat bucketed(replayed, now(), graphs, /*seed=*/3), plain(called, now(), graphs, /*seed=*/3);
  for (int64_t t = 0; t < 30; ++t) {
    const auto& chosen = kChosen[size_t(t) % kChosen.size()];
    show(t);
    bucketed.act(chosen, t);
    const at::Tensor actions = now().action.cpu();
    now().action.fill_(-1);
    plain.act(chosen, t);
    EXPECT_TRUE(at::equal(actions, now().action.cpu())) << "time step " << t;
    EXPECT_TRUE(at::equal(bucketed.carry().parts[0].cpu(), plain.carry().parts[0].cpu())) << t;
  }
  EXPECT_EQ(bucketed.replayed(), (std::vector<int64_t>{1, 4, 8, 12}));
  EXPECT_TRUE(plain.replayed().empty());
}

TEST_F(Acting_on_cuda,
       of_policies_in_buckets_is_that_of_the_policy_also_once_others_were_published) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> kinds{
      {"ppo", {"ppo.network.hidden=[16]"}},
      {"ppo", {"ppo.network.hidden=[16]", "ppo.network.normalize_obs=true", "ppo.fused=false"}},
      {"tdmpc2",
       {"tdmpc2.enc_dim=24", "tdmpc2.mlp_dim=32", "tdmpc2.latent_dim=16", "tdmpc2.num_q=2",
        "tdmpc2.samples=16", "tdmpc2.elites=4", "tdmpc2.policy_trajectories=4",
        "tdmpc2.iterations=2"}},
      {"tdmpc2",
       {"tdmpc2.enc_dim=24", "tdmpc2.mlp_dim=32", "tdmpc2.latent_dim=16", "tdmpc2.num_q=2",
        "tdmpc2.mpc=false"}}};
  for (const auto& [algo, settings] : kinds) {
    SCOPED_TRACE(algo + " " + settings.back());
    Experiment experiment(algo, "tug"), other(algo, "tug");
    for (Experiment* e : {&experiment, &other})
      for (const auto& setting : settings) e->table().override_with(setting);
    other.table().override_with("seed=9");
    const Placement placement{.device = kCuda, .threads = 1};
    const auto policy_of = [&](const Experiment& e) {
      auto policy = e.algo().make_policy(e.algo_options(), context_of(e, placement, pool_));
      policy->publish();
      return policy;
    };
    const auto policy = policy_of(experiment), learned = policy_of(other);
    Eager called(*policy);
    PolicyPlayer replayed_player(*policy, "replayed", ActMode::sample);
    PolicyPlayer called_player(called, "called", ActMode::sample);
    GraphPool graphs(kCuda);
    Seat bucketed(replayed_player, now(), graphs, 3), plain(called_player, now(), graphs, 3);
    at::Tensor last;
    for (int64_t t = 0; t < 8; ++t) {
      // what was learned takes the place of what acted, as a past self's or a checkpoint's does
      if (t == 5) {
        StateSnapshot([&](StateVisitor& v) {
          learned->visit_state(v);
        }).restore([&](StateVisitor& v) { policy->visit_state(v); });
        policy->publish();
      }
      show(0);
      bucketed.act({11, 2, 4}, t);
      const at::Tensor actions = now().action.cpu();
      now().action.fill_(-1);
      plain.act({11, 2, 4}, t);
      EXPECT_TRUE(at::allclose(actions, now().action.cpu(), 1e-4, 1e-5)) << "time step " << t;
      last = actions;
    }
    EXPECT_EQ(bucketed.replayed(), std::vector<int64_t>{4});
    // the same time step by the weights that were there before
    StateSnapshot([&](StateVisitor& v) {
      policy_of(experiment)->visit_state(v);
    }).restore([&](StateVisitor& v) { policy->visit_state(v); });
    policy->publish();
    show(0);
    bucketed.act({11, 2, 4}, 7);
    EXPECT_FALSE(at::allclose(now().action.cpu(), last, 1e-4, 1e-5)) << "weights do not matter";
  }
}

TEST_F(Acting_on_cuda, that_an_evaluation_replays_gives_the_returns_of_one_that_is_called) {
  for (const char* against : {"", "idle", "policy"}) {
    Experiment experiment("ppo", "tug");
    experiment.table().override_with("ppo.network.hidden=[16]");
    const Placement placement{.device = kCuda, .threads = 1};
    const auto policy = experiment.algo().make_policy(experiment.algo_options(),
                                                      context_of(experiment, placement, pool_));
    policy->publish();
    Eager called(*policy);
    const auto judged = [&](Policy& judge) {
      const Game game{.env = experiment.env(),
                      .params = experiment.env_params(),
                      .spec = spec_,
                      .placement = placement,
                      .pool = pool_,
                      .rows = 6};
      PolicyPlayer same(judge, "policy", ActMode::sample);
      const auto bot =
          std::string(against) == "idle" ? make_player(against, game, ActMode::sample) : nullptr;
      Player* rival = bot ? bot.get() : *against ? &same : nullptr;
      PolicyPlayer judged_one(judge, "judged", ActMode::sample);
      return evaluate(judged_one, game_of(experiment, placement, pool_),
                      {.episodes = 12, .envs = 6, .against = rival});
    };
    const EvalResult replayed = judged(*policy), plain = judged(called);
    EXPECT_EQ(replayed.returns, plain.returns) << against;
    EXPECT_EQ(replayed.wins, plain.wins) << against;
    EXPECT_EQ(replayed.episodes, 12) << against;
  }
}

}  // namespace
}  // namespace maglev
