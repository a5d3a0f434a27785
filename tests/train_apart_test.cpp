// Environments whose agents end apart, by tests/envs/door: what the rows of agents that wait are,
// and that nothing takes them for steps: no algorithm, no statistic, no file, no game.

#include <cmath>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "base/core/safetensors.h"
#include "base/env/batch_cpu.h"
#include "base/env/env_params.h"
#include "base/env/host_envs.h"
#include "engine/play/evaluate.h"
#include "engine/run/checkpoint.h"
#include "engine/train/dataset.h"
#include "engine/train/hooks.h"
#include "engine/train/trainer.h"
#include "tests/envs/door/door.h"
#include "tests/folder.h"
#include "tests/small_plans.h"
#include "verbs/play/match.h"

namespace maglev {
namespace {

using Settings = std::vector<std::string>;

constexpr float kShout = 77;

/// Walkers by chance, who say kShout where they wait.
struct Walked {
  explicit Walked(int64_t count)
      : envs(find_env("door"), count, 1, {{"shout", std::to_string(kShout)}}), draws(1, 2, 0) {
    envs.reset();
  }
  void step() { envs.random_actions(draws), envs.step(); }
  bool shouts(int64_t row) const { return envs.obs<float>(0, row)[0] == kShout; }

  HostEnvs envs;
  Rng draws;
};

TEST(EndsApart, the_row_of_one_who_waits_is_that_of_a_step_that_only_resets) {
  Walked walked(20);
  HostEnvs& envs = walked.envs;
  const int agents = envs.spec().agents;
  EXPECT_TRUE(envs.spec().ends_apart);
  int64_t waited = 0, came = 0;
  for (int t = 0; t < 300; ++t) {
    std::vector<uint8_t> resets;
    for (int64_t i = 0; i < envs.count(); ++i)
      resets.push_back(uint8_t(head_of(envs.batch(), i).needs_reset));
    walked.step();
    for (int64_t row = 0; row < envs.rows(); ++row) {
      const auto& state = envs.state<Door>(row / agents);
      const bool waits = state.was[row % agents] & Door::kWaited, reset = resets[row / agents];
      const size_t r = size_t(row);
      ASSERT_EQ(envs.is_first[r] != 0, waits || reset) << t;
      if (!waits && !reset) continue;
      EXPECT_EQ(envs.reward[r], 0);
      EXPECT_FALSE(envs.terminated[r] || envs.truncated[r]);
      waited += waits, came += waits && !walked.shouts(row);
    }
  }
  EXPECT_GT(waited, 100);
  EXPECT_GT(came, 100) << "nobody came late";
}

// what other parts go by (StepColumns::is_first)
TEST(EndsApart, a_row_waits_where_is_first_is_set_and_set_again_behind_it) {
  Walked walked(20);
  std::vector<uint8_t> first = walked.envs.is_first;
  int64_t waiting = 0, begins = 0;
  for (int t = 0; t < 300; ++t) {
    std::vector<uint8_t> shouted;
    for (int64_t row = 0; row < walked.envs.rows(); ++row) shouted.push_back(walked.shouts(row));
    walked.step();
    for (size_t row = 0; row < first.size(); ++row) {
      ASSERT_EQ(first[row] && walked.envs.is_first[row], shouted[row] != 0) << t;
      waiting += shouted[row], begins += first[row] && !shouted[row];
    }
    first = walked.envs.is_first;
  }
  EXPECT_GT(waiting, 1000);
  EXPECT_GT(begins, 1000);
}

TEST(EndsApart, episodes_are_counted_as_the_first_agent_has_them) {
  Walked walked(20);
  HostEnvs& envs = walked.envs;
  const int agents = envs.spec().agents;
  EpisodeTotals expected;
  for (int t = 0; t < 300; ++t) {
    walked.step();
    for (int64_t i = 0; i < envs.count(); ++i) {
      const size_t row = size_t(i * agents);
      if (envs.is_first[row]) continue;
      expected.return_sum += double(envs.reward[row]);
      expected.length_sum += 1;
      expected.episodes += envs.terminated[row] || envs.truncated[row];
    }
  }
  // of those that had not ended
  for (int64_t i = 0; i < envs.count(); ++i) {
    const SlotHead& head = head_of(envs.batch(), i);
    if (envs.state<Door>(i).gone[0]) continue;
    expected.return_sum -= double(head.episode_return);
    expected.length_sum -= head.episode_length;
  }
  const EpisodeTotals totals = envs.take_totals();
  EXPECT_GT(totals.episodes, 100);
  EXPECT_EQ(totals.episodes, expected.episodes);
  EXPECT_EQ(totals.length_sum, expected.length_sum);
  EXPECT_NEAR(totals.return_sum, expected.return_sum, 1e-4);
}

TEST(EndsApart, the_log_of_episodes_has_those_that_are_counted) {
  claim_threads();
  const EnvEntry& entry = find_env("door");
  const EnvParams params(entry, {});
  ThreadPool pool(1);
  constexpr int64_t T = 7;
  VecEnv envs(entry, params.get(), 10, 1, at::kCPU, pool);
  Rollout rows(envs.spec(), {.T = T, .rows = envs.rows(), .block_rows = envs.rows()}, {}, at::kCPU);
  envs.reset(rows.first_io());
  EpisodeLog log(envs);
  double returns = 0, lengths = 0;
  int64_t episodes = 0;
  at::manual_seed(1);
  for (int64_t step = T * envs.rows(); episodes < 100; step += T * envs.rows()) {
    for (int64_t t = 0; t < T; ++t) rows.step(t).action.random_(0, 2), envs.step(rows.io(t));
    for (const FinishedEpisode& one : log.read(rows.window(), step))
      returns += one.episode_return, lengths += double(one.length), ++episodes;
    rows.roll_over();
  }
  const EpisodeTotals totals = envs.take_totals();
  EXPECT_EQ(totals.episodes, episodes);
  EXPECT_EQ(totals.return_sum, returns);
  EXPECT_EQ(totals.length_sum, lengths);
}

/// Says nothing of who plays to the end, and pays who waits: the second agent, but for step 1.
struct Careless {
  static constexpr const char* kSummary = "leaves to the runner what is its to do";
  static constexpr int kAgents = 2;
  struct Params {
    static void describe(OptionTable&, Params&) {}
  };
  struct State {
    int32_t steps;
  };
  static EnvSpec spec(const Params&) {
    return {.observations = {{.name = "vector", .shape = {1}}}, .action = {.heads = {2}}};
  }
  static void reset(const Params&, State& s, Rng&) { s.steps = 0; }
  static void step(const Params&, State& s, const Actions&, Rng&, StepOut& out) {
    s.steps += 1;
    out.reward[0] = out.reward[1] = 5;
    out.truncated = s.steps == 3;
  }
  static AgentEnd end_of(const Params&, const State& s, int agent) {
    if (agent == 0) return {};
    return {.terminated = true, .truncated = false, .waits = s.steps > 1};
  }
  static void observe(const Params&, const State&, int, const ObsOut& out) {
    out.as<float>(0)[0] = 0;
  }
};

TEST(EndsApart, the_runner_ends_all_with_the_last_and_pays_nobody_who_waits) {
  const EnvEntry entry = make_env_entry<Careless>("careless");
  HostEnvs envs(entry, 1, 1);
  envs.reset();
  using Row = std::vector<float>;
  std::vector<Row> rows[2];
  for (int t = 0; t < 4; ++t) {
    envs.step();
    for (size_t a : {0, 1})
      rows[a].push_back({envs.reward[a], float(envs.terminated[a]), float(envs.truncated[a]),
                         float(envs.is_first[a])});
  }
  EXPECT_EQ(rows[0], (std::vector<Row>{{5, 0, 0, 0}, {5, 0, 0, 0}, {5, 0, 1, 0}, {0, 0, 0, 1}}));
  EXPECT_EQ(rows[1], (std::vector<Row>{{5, 1, 0, 0}, {0, 0, 0, 1}, {0, 0, 0, 1}, {0, 0, 0, 1}}));
}

/// What a run on door leaves: networks, and figures since it began.
struct Left {
  std::string networks;
  std::vector<std::pair<std::string, double>> figures;
};

std::unique_ptr<Experiment> on_door(const AlgoEntry& algo, const Settings& settings) {
  auto made = std::make_unique<Experiment>(algo.name, "door");
  const bool of_numbers = algo.small.env == std::string_view("pendulum");
  const Settings common{of_numbers ? "env.pushes=true" : "env.pushes=false", "train.steps=100000"};
  const Settings more = algo.name == std::string_view("tdmpc2") ? kSmallPlans : Settings{};
  for (const auto* some : {&algo.small.settings, &more, &common, &settings})
    for (const auto& setting : *some) made->table().override_with(setting);
  return made;
}

Left trained(const AlgoEntry& algo, const Settings& settings) {
  claim_threads();
  const auto experiment = on_door(algo, settings);
  Trainer trainer(*experiment, {.device = at::kCPU, .threads = 2});
  for (int i = 0; i < 40; ++i) trainer.iterate();
  EXPECT_GT(trainer.updates(), 0);
  Left left{
      .networks = state_hash([&](StateVisitor& v) { trainer.algorithm().policy().visit_state(v); }),
      .figures = {}};
  for (auto& figure : trainer.flush().values)
    if (!figure.first.starts_with("time/")) left.figures.push_back(figure);
  return left;
}

void expect_same(const Left& a, const Left& b) {
  EXPECT_EQ(a.networks, b.networks);
  ASSERT_EQ(a.figures.size(), b.figures.size());
  for (size_t i = 0; i < a.figures.size(); ++i) {
    const double x = a.figures[i].second, y = b.figures[i].second;
    EXPECT_TRUE(x == y || (std::isnan(x) && std::isnan(y)))
        << a.figures[i].first << ": " << x << " and " << y;
  }
}

class LearnsApart : public testing::TestWithParam<size_t> {
 protected:
  const AlgoEntry& algo() const { return algo_table()[GetParam()]; }
  // what keeps statistics besides
  std::vector<Settings> ways() const {
    if (algo().name == std::string_view("ppo"))
      return {{},
              {"ppo.fused=false"},
              {"ppo.network.normalize_obs=true", "ppo.normalize_reward=true",
               "ppo.network.value_head=popart", "ppo.normalize_advantage=batch"},
              {"ppo.network.memory=8", "ppo.sequence=8", "ppo.network.normalize_obs=true"}};
    if (algo().name == std::string_view("dreamer"))
      return {{}, {"dreamer.fused=false"}, {"dreamer.objective=redundancy"}};
    return {{}};
  }
};

TEST_P(LearnsApart, what_agents_that_wait_show_changes_nothing) {
  for (const Settings& way : ways()) {
    Settings loud = way;
    loud.push_back("env.shout=50");
    SCOPED_TRACE(way.empty() ? "" : way[0]);
    expect_same(trained(algo(), loud), trained(algo(), way));
  }
}

INSTANTIATE_TEST_SUITE_P(OfTheTable, LearnsApart, testing::Range<size_t>(0, algo_table().size()),
                         [](const auto& info) {
                           return std::string(algo_table()[info.param].name);
                         });

TEST(EndsApart, a_dataset_has_no_rows_of_agents_that_wait) {
  const auto experiment = on_door(find_algo("tdmpc2"), {"env.shout=50"});
  Trainer trainer(*experiment, {.device = at::kCPU, .threads = 1});
  for (int i = 0; i < 20; ++i) trainer.iterate();
  const Replay& replay = *trainer.store().replay();
  const int64_t held = (replay.counters().now + 1) * replay.shape().window.rows;
  const std::string path = test_folder() + "/door.safetensors";
  const int64_t written =
      write_dataset(path, "door", trainer.envs().spec(), *trainer.store().replay());
  EXPECT_LT(written, held * 3 / 4);
  FileReader file(path);
  const SafeTensors tensors = parse_safetensors(file);
  const SafeTensor& seen = *tensors.find("obs.vector");
  std::vector<float> numbers(size_t(seen.shape[0] * 3));
  file.read(seen.begin, std::as_writable_bytes(std::span(numbers)));
  EXPECT_EQ(std::count(numbers.begin(), numbers.end(), 50.f), 0);
  // and it is one
  const auto learns = on_door(find_algo("tdmpc2"), {"train.dataset=" + path});
  Trainer reader(*learns, {.device = at::kCPU, .threads = 1});
  reader.iterate();
  EXPECT_EQ(reader.updates(), 1);
}

/// Two who race, or one where the other never comes (late=20).
EvalResult raced(const std::string& player, const std::string& against, const EvalOptions& options,
                 const Settings& settings = {}) {
  claim_threads();
  Experiment experiment("ppo", "door");
  for (const char* setting : {"env.walkers=2", "env.race=true", "env.late=0"})
    experiment.table().override_with(setting);
  for (const auto& setting : settings) experiment.table().override_with(setting);
  ThreadPool pool(2);
  const Game game = game_of(experiment, {.device = at::kCPU, .threads = 2}, pool);
  const auto one = make_player(player, game, ActMode::mean),
             other = make_player(against, game, ActMode::mean);
  EvalOptions with = options;
  with.against = other.get();
  return evaluate(*one, game, with);
}

using Games = std::vector<int64_t>;
Games games_of(const EvalResult& r) { return {r.wins, r.draws, r.losses}; }

TEST(EndsApart, a_game_is_scored_when_both_have_ended_whoever_ends_first) {
  const EvalOptions ten{.episodes = 10, .envs = 4};
  EXPECT_EQ(games_of(raced("walker", "stander", ten)), (Games{10, 0, 0}));
  EXPECT_EQ(games_of(raced("stander", "walker", ten)), (Games{0, 0, 10}));
  EXPECT_EQ(games_of(raced("stander", "stander", ten)), (Games{0, 10, 0}));
  const EvalResult walkers = raced("walker", "walker", {.episodes = 60, .envs = 4});
  EXPECT_EQ(walkers.draws, 0);
  EXPECT_GT(walkers.wins, 0);
  EXPECT_GT(walkers.losses, 0);
  for (const EvalResult& r : {raced("walker", "stander", ten), raced("stander", "walker", ten)}) {
    EXPECT_EQ(r.episodes, 10);
    EXPECT_EQ(r.given_up, 0);
  }
}

TEST(EndsApart, who_never_comes_has_nothing_and_a_game_without_the_player_is_none) {
  const EvalOptions ten{.episodes = 10, .envs = 4};
  const EvalResult alone = raced("walker", "walker", ten, {"env.late=20"});
  EXPECT_EQ(games_of(alone), (Games{10, 0, 0}));
  EXPECT_EQ(alone.episodes, 10);
  EXPECT_EQ(alone.given_up, 0);
}

TEST(EndsApart, an_episode_of_a_first_agent_that_waits_for_others_counts_once) {
  claim_threads();
  Experiment experiment("ppo", "door");
  ThreadPool pool(2);
  const Game game = game_of(experiment, {.device = at::kCPU, .threads = 2}, pool);
  const auto walker = make_player("walker", game, ActMode::mean);
  const EvalResult r = evaluate(*walker, game, {.episodes = 50, .envs = 8});
  EXPECT_EQ(r.episodes, 50);
  EXPECT_EQ(r.return_mean, 1);
  EXPECT_EQ(r.given_up, 0);
  EXPECT_GE(r.length_mean, 1);
  EXPECT_LE(r.length_mean, Door::kFar);
}

// the others go on for longer than an episode may take
TEST(EndsApart, a_first_agent_that_waits_too_long_is_given_up) {
  claim_threads();
  Experiment experiment("ppo", "door");
  for (const char* setting : {"env.walkers=2", "env.late=0", "env.max_steps=1000000"})
    experiment.table().override_with(setting);
  ThreadPool pool(1);
  const Game game = game_of(experiment, {.device = at::kCPU, .threads = 1}, pool);
  const auto walker = make_player("walker", game, ActMode::mean),
             stander = make_player("stander", game, ActMode::mean);
  EvalOptions options{.episodes = 6, .envs = 2, .longest_episode = 30};
  options.against = stander.get();
  const EvalResult r = evaluate(*walker, game, options);
  EXPECT_EQ(r.given_up, 6);
  EXPECT_EQ(r.episodes, 0);
}

TEST(EndsApart, a_match_counts_a_win_when_the_last_has_ended) {
  const Settings race{"env.walkers=2", "env.race=true", "env.late=0"};
  for (const auto& [names, wins] :
       {std::pair{Settings{"walker", "stander"}, Games{5, 0}}, {{"stander", "walker"}, {0, 5}}}) {
    Match match(find_env("door"), {.env = race}, names, nullptr, ActMode::mean, 1);
    while (match.episodes() < 5) match.step();
    EXPECT_EQ(match.wins(), wins);
  }
}

}  // namespace
}  // namespace maglev
