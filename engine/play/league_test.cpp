#include "engine/play/league.h"

#include <cmath>
#include <filesystem>

#include <ATen/ATen.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "engine/play/evaluate.h"
#include "engine/run/checkpoint.h"
#include "engine/run/snapshot.h"
#include "engine/train/trainer.h"

namespace maglev {
namespace {

std::unique_ptr<Experiment> tug(const std::vector<std::string>& settings) {
  claim_threads();
  auto experiment = std::make_unique<Experiment>("ppo", "tug");
  for (const char* common : {"ppo.rollout=16", "ppo.network.hidden=[16]", "ppo.minibatch=256",
                             "env.count=48", "train.steps=100000"})
    experiment->table().override_with(common);
  for (const auto& setting : settings) experiment->table().override_with(setting);
  return experiment;
}

const LeagueRow& row_of(const std::vector<LeagueRow>& table, const std::string& name) {
  for (const LeagueRow& row : table)
    if (row.name == name) return row;
  throw Error("no player " + name);
}

TEST(League, expected_scores_of_two_players_add_up_to_one) {
  EXPECT_DOUBLE_EQ(elo_expected(1000, 1000), 0.5);
  EXPECT_NEAR(elo_expected(1400, 1000), 10. / 11, 1e-12);
  EXPECT_NEAR(elo_expected(1234, 987) + elo_expected(987, 1234), 1, 1e-12);
}

TEST(League, learner_has_one_row_an_environment_and_meets_every_kind_of_opponent) {
  auto experiment = tug({"train.opponents=idle,heavy,past,self", "train.past_every=768"});
  Trainer trainer(*experiment, {.device = at::kCPU, .threads = 2});
  EXPECT_EQ(trainer.envs().rows(), 48);
  for (int i = 0; i < 30; ++i) trainer.iterate();
  const auto table = trainer.league()->table();
  // four past selves beside the three others
  ASSERT_EQ(table.size(), 7u);
  for (const LeagueRow& row : table) {
    // a past self of the last iteration has not met anybody yet
    if (row.name != "past@23040") {
      EXPECT_GT(row.games, 0) << row.name;
    }
    EXPECT_EQ(row.games, row.wins + row.draws + row.losses) << row.name;
  }
}

TEST(League,
     the_learner_named_twice_is_as_strong_as_it_is_and_past_selves_named_twice_are_met_twice) {
  auto experiment = tug({"train.opponents=self,self,heavy"});
  Trainer trainer(*experiment, {.device = at::kCPU, .threads = 2});
  for (int i = 0; i < 20; ++i) trainer.iterate();
  const auto table = trainer.league()->table();
  for (const char* name : {"self", "self#2"}) {
    EXPECT_EQ(row_of(table, name).elo, trainer.league()->elo()) << name;
    EXPECT_GT(row_of(table, name).games, 0) << name;
  }
  // of two entries against one: two games of three, but for what is drawn
  auto twice = tug({"train.opponents=past,past,idle", "train.past_every=1000000"});
  Trainer met(*twice, {.device = at::kCPU, .threads = 2});
  for (int i = 0; i < 60; ++i) met.iterate();
  double past = 0, all = 0;
  for (const LeagueRow& row : met.league()->table())
    all += double(row.games), past += row.name == "idle" ? 0. : double(row.games);
  EXPECT_GT(all, 300);
  EXPECT_NEAR(past / all, 2. / 3, 0.1);
}

TEST(League, a_heavy_player_is_rated_above_an_idle_one_and_a_learner_beats_both) {
  auto experiment = tug({"train.opponents=idle,heavy", "ppo.lr=0.003", "train.steps=300000"});
  Trainer trainer(*experiment, {.device = at::kCPU, .threads = 2});
  while (!trainer.done()) trainer.iterate();
  const auto table = trainer.league()->table();
  EXPECT_GT(row_of(table, "heavy").elo, row_of(table, "idle").elo);
  EXPECT_GT(trainer.league()->elo(), row_of(table, "idle").elo);
  BotPlayer idle(trainer.envs().entry().bots[0], "idle", experiment->env_params());
  PolicyPlayer learner(trainer.algorithm().policy(), "learner", ActMode::mean);
  const EvalResult r = evaluate(learner, game_of(*experiment, trainer.placement(), trainer.pool()),
                                {.episodes = 50, .against = &idle});
  EXPECT_EQ(r.wins + r.draws + r.losses, 50);
  EXPECT_GE(r.wins, 45);
}

TEST(League, results_do_not_depend_on_threads_and_a_restored_run_goes_on_alike) {
  const std::vector<std::string> settings{"train.opponents=heavy,past", "train.past_every=768",
                                          "train.matchmaking=hard"};
  const auto hash = [](Trainer& t) {
    return state_hash([&](StateVisitor& v) { t.visit_state(v); });
  };
  auto experiment = tug(settings);
  Trainer one(*experiment, {.device = at::kCPU, .threads = 1});
  Trainer three(*experiment, {.device = at::kCPU, .threads = 3});
  for (int i = 0; i < 6; ++i) one.iterate(), three.iterate();
  EXPECT_EQ(hash(one), hash(three));

  Trainer restored(*experiment, {.device = at::kCPU, .threads = 2});
  StateSnapshot([&](StateVisitor& v) { one.visit_state(v); }).restore([&](StateVisitor& v) {
    restored.visit_state(v);
  });
  for (int i = 0; i < 6; ++i) one.iterate(), restored.iterate();
  EXPECT_EQ(hash(one), hash(restored));
}

TEST(League, a_past_self_is_of_an_iterations_end_also_where_the_updates_were_cut_short) {
  claim_threads();
  Experiment experiment("tdmpc2", "tug");
  for (const auto& setting : experiment.algo().small.settings)
    experiment.table().override_with(setting);
  for (const char* setting : {"train.opponents=past", "train.past_every=560", "tdmpc2.mpc=false"})
    experiment.table().override_with(setting);
  const auto hash_at = [&](Trainer& trainer, int64_t step) {
    while (trainer.step() < step) trainer.iterate();
    return state_hash([&](StateVisitor& v) { trainer.visit_state(v); });
  };
  const Placement placement{.device = at::kCPU, .threads = 1};
  Trainer whole(experiment, placement), cut(experiment, placement);
  bool leave = true;
  cut.stop_when([&] { return leave && cut.updates() >= 4; });
  while (cut.updates() < 4) cut.iterate();
  ASSERT_EQ(cut.updates(), 4) << "none was owed";
  leave = false;
  EXPECT_EQ(hash_at(cut, 2800), hash_at(whole, 2800));
}

TEST(League, unknown_opponents_and_environments_of_one_are_named) {
  const auto message = [](const std::string& env, const std::string& opponents) -> std::string {
    Experiment experiment("ppo", env);
    experiment.table().override_with("train.opponents=" + opponents);
    try {
      Trainer trainer(experiment, {.device = at::kCPU, .threads = 1});
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(message("tug", "hevy").find("idle, heavy"), std::string::npos);
  EXPECT_NE(message("pendulum", "self").find("needs 2"), std::string::npos)
      << message("pendulum", "self");
}

}  // namespace
}  // namespace maglev
