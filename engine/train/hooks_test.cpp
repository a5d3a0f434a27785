#include "engine/train/hooks.h"

#include <cmath>

#include <gtest/gtest.h>

#include "engine/host/machine.h"
#include "engine/run/checkpoint.h"
#include "engine/train/trainer.h"
#include "engine/train/training_run.h"
#include "tests/folder.h"

namespace maglev {
namespace {

/// What a run's hooks have heard.
struct Heard {
  std::vector<FinishedEpisode> episodes;
  std::vector<std::pair<int64_t, Figures>> passes;
  std::vector<int64_t> starts;
  std::vector<MetricRow> rows;
  int begun = 0, ended = 0;
  std::string state;  ///< hash of the trained run

  Hooks hooks(bool all) {
    Hooks h{.training_end = [this](const Trainer& trainer) {
      ++ended;
      state = state_hash(
          [&](StateVisitor& v) { const_cast<Trainer&>(trainer).algorithm().visit_state(v); });
    }};
    if (!all) return h;
    h.training_start = [this](const Trainer&) { ++begun; };
    h.iteration_start = [this](int64_t step) { starts.push_back(step); };
    h.episodes = [this](std::span<const FinishedEpisode> some) {
      episodes.insert(episodes.end(), some.begin(), some.end());
    };
    h.epoch = [this](int64_t epoch, const Figures& f) { passes.emplace_back(epoch, f); };
    h.row = [this](const MetricRow& row) { rows.push_back(row); };
    return h;
  }
};

Heard trained(const std::string& algo, const std::vector<std::string>& settings, bool all = true) {
  claim_threads();
  Experiment experiment(algo, algo == "ppo" ? "cartpole" : "pendulum");
  for (const auto& setting : settings) experiment.table().override_with(setting);
  for (const char* setting : {"train.warmup=1", "threads=2", "device=cpu"})
    experiment.table().override_with(setting);
  static int runs = 0;
  const std::string out = test_folder() + "/hooks" + std::to_string(runs++);
  Heard heard;
  train_new(experiment, {.out = out, .sinks = {"jsonl"}, .hooks = heard.hooks(all)});
  return heard;
}

const std::vector<std::string> kPpo{"train.steps=4096",  "env.count=16",
                                    "ppo.rollout=64",    "ppo.epochs=3",
                                    "ppo.minibatch=256", "train.log_every=1024"};

double figure(const Figures& figures, const std::string& name) {
  for (const auto& [key, value] : figures)
    if (key == name) return value;
  return NAN;
}

TEST(Hooks, hear_every_iteration_pass_and_row_of_a_run) {
  const Heard heard = trained("ppo", kPpo);
  EXPECT_EQ(heard.begun, 1);
  EXPECT_EQ(heard.ended, 1);
  EXPECT_EQ(heard.starts, (std::vector<int64_t>{0, 1024, 2048, 3072}));
  // warm-up's passes are not told
  ASSERT_EQ(heard.passes.size(), 4u * 3u);
  for (size_t i = 0; i < heard.passes.size(); ++i) EXPECT_EQ(heard.passes[i].first, int64_t(i % 3));
}

TEST(Hooks, figures_of_passes_add_up_to_a_rows) {
  const Heard heard = trained("ppo", kPpo);
  ASSERT_EQ(heard.rows.size(), 4u);
  for (size_t r = 0; r < 4; ++r)
    for (const char* name : {"loss/policy", "loss/value", "loss/entropy"}) {
      double mean = 0;
      for (size_t e = 0; e < 3; ++e) mean += figure(heard.passes[3 * r + e].second, name) / 3;
      const double of_row = figure(heard.rows[r].values, name);
      ASSERT_TRUE(std::isfinite(of_row)) << name;
      EXPECT_NEAR(mean, of_row, 1e-5 * (1 + std::abs(of_row))) << name;
    }
}

TEST(Hooks, episodes_are_those_of_the_rows) {
  const Heard heard = trained("ppo", kPpo);
  ASSERT_GT(heard.episodes.size(), 20u);
  EXPECT_EQ(int64_t(heard.episodes.size()), heard.rows.back().episodes);
  double sum = 0;
  int64_t step = 0;
  std::vector<int64_t> length(16, 0);
  for (const FinishedEpisode& e : heard.episodes) {
    // cartpole: a reward of 1 a step, and no limit is reached so early
    EXPECT_EQ(e.episode_return, double(e.length));
    EXPECT_TRUE(e.terminated);
    EXPECT_GE(e.step, step);
    step = e.step;
    sum += e.episode_return;
    length[size_t(e.environment)] += e.length + 1;
  }
  // an episode and the step behind it are time steps of their environment
  for (int64_t l : length) EXPECT_LE(l, 4096 / 16 + 1);
  if (heard.episodes.size() < 100) {
    EXPECT_NEAR(sum / double(heard.episodes.size()), heard.rows.back().return_mean, 1e-9);
  }
}

TEST(Hooks, change_nothing_of_a_run) {
  EXPECT_EQ(trained("ppo", kPpo).state, trained("ppo", kPpo, /*all=*/false).state);
}

TEST(Hooks, are_the_same_for_an_algorithm_that_learns_from_a_replay) {
  const Heard heard =
      trained("tdmpc2", {"train.steps=1800", "tdmpc2.seed_steps=1600", "env.count=4",
                         "tdmpc2.mlp_dim=32", "tdmpc2.latent_dim=16", "tdmpc2.enc_dim=16",
                         "tdmpc2.mpc=false", "tdmpc2.batch=16", "train.log_every=100"});
  EXPECT_GT(heard.passes.size(), 100u);
  EXPECT_EQ(heard.episodes.size(), 8u);
  EXPECT_FALSE(heard.episodes[0].terminated);
  EXPECT_EQ(int64_t(heard.episodes.size()), heard.rows.back().episodes);
}

}  // namespace
}  // namespace maglev
