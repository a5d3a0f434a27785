#include "engine/play/player.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/printed.h"
#include "base/core/split.h"
#include "base/core/words.h"
#include "engine/algo/experiment.h"
#include "engine/data/step_window.h"
#include "engine/run/checkpoint.h"
#include "engine/run/run_dir.h"
#include "engine/run/stored_experiment.h"

namespace maglev {
namespace {

// counters a bot may use up in one step
constexpr uint64_t kCountersAStep = 64;

/// The rows of a time step in host memory, for players that are scripted there.
class HostRows {
 public:
  HostRows(const TimeStep& step, const ActKey& key) : key_(key), first_row_(step.first) {
    for (const auto& column : step.obs) obs_.push_back(column.cpu());
    first_ = step.is_first.cpu();
    if (key.rows)
      index_ = at::from_blob(const_cast<int64_t*>(key.rows), {step.rows()},
                             step.is_first.options().dtype(at::kLong))
                   .cpu();
    action_ = step.action.cpu();
    flags_ = first_.const_data_ptr<uint8_t>();
    for (const auto& column : obs_) {
      columns_.push_back(static_cast<const std::byte*>(column.const_data_ptr()));
      row_bytes_.push_back(int64_t(column.nbytes()) / step.rows());
    }
    if (action_.scalar_type() == at::kInt) discrete_ = action_.data_ptr<int32_t>();
    else continuous_ = action_.data_ptr<float>();
  }

  bool first(int64_t r) const { return flags_[r] != 0; }
  Rng rng(int64_t r, uint64_t counters_a_step) const {
    const int64_t index = index_.defined() ? index_.const_data_ptr<int64_t>()[r] : first_row_ + r;
    return {key_.seed, stream_id(key_.purpose, uint64_t(index)),
            uint64_t(key_.step) * counters_a_step};
  }
  void observe(int64_t r, const std::byte** columns) const {
    for (size_t c = 0; c < columns_.size(); ++c) columns[c] = columns_[c] + r * row_bytes_[c];
  }
  int32_t* discrete(int64_t r) const { return discrete_ ? discrete_ + r * dims() : nullptr; }
  float* continuous(int64_t r) const { return continuous_ ? continuous_ + r * dims() : nullptr; }
  /// To the device the rows are on.
  void put_back(TimeStep& step) const {
    if (!step.action.is_cpu()) step.action.copy_(action_);
  }

 private:
  int64_t dims() const { return action_.size(1); }

  ActKey key_;
  int64_t first_row_;
  std::vector<at::Tensor> obs_;
  at::Tensor first_, index_, action_;
  const uint8_t* flags_;
  std::vector<const std::byte*> columns_;
  std::vector<int64_t> row_bytes_;
  int32_t* discrete_ = nullptr;
  float* continuous_ = nullptr;
};

/// One of `n` categories, of those `allowed` where there is such a list.
int32_t draw(Rng& rng, int64_t n, const uint8_t* allowed) {
  const auto choice = int64_t(rng.below(uint32_t(n)));
  for (int64_t k = 0; allowed && k < n; ++k)
    if (allowed[(choice + k) % n]) return int32_t((choice + k) % n);
  return int32_t(choice);
}

}  // namespace

Game as_trained(Game game) {
  game.acting.clear();
  game.temperature = 1;
  return game;
}

Game game_of(const Experiment& experiment, const Placement& placement, ThreadPool& pool) {
  return {.env = experiment.env(),
          .params = experiment.env_params(),
          .spec = experiment.spec(),
          .placement = placement,
          .pool = pool,
          .rows = experiment.learning_rows()};
}

GivenSettings sorted_settings(const std::string& where, const std::vector<std::string>& settings,
                              const std::vector<std::string>& players) {
  std::vector<std::string> others = settings;
  GivenSettings sorted{.threads = take_threads(others)};
  for (std::string& setting : others)
    (setting.starts_with("env.") ? sorted.env : sorted.acting).push_back(std::move(setting));
  if (sorted.acting.empty()) return sorted;
  // what may be said of the policies that play
  std::vector<std::string> names;
  for (const std::string& player : players)
    if (const auto run = run_named(player))
      for (std::string& name : experiment_of(run->folder)->table().acting())
        if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  for (const std::string& setting : sorted.acting)
    if (std::ranges::find(names, name_part(setting)) == names.end())
      throw Error("[" + where + "] only env.* settings" +
                  (names.empty() ? " and threads=N"
                                 : ", threads=N and those that say how a policy acts (" +
                                       joined(names) + ")") +
                  " may be given, got '" + setting + "'" +
                  did_you_mean(near_names(name_part(setting), names)));
  return sorted;
}

OpenGame::OpenGame(const EnvEntry& env, const GivenSettings& settings, int64_t rows)
    : params_(env, settings.env),
      placement_(place("auto", settings.threads.value_or(0))),
      pool_(placement_.threads),
      game_{.env = env,
            .params = params_.get(),
            .spec = env.spec(params_.get()),
            .placement = placement_,
            .pool = pool_,
            .rows = rows,
            .acting = settings.acting,
            .temperature = settings.temperature} {}

Carry BotPlayer::initial_carry(int64_t rows) {
  return {.parts = {at::zeros({rows, int64_t(kMaxBotState)}, at::kByte)}};
}

void BotPlayer::act(TimeStep& step, Carry& carry, const ActKey& key) {
  const HostRows rows(step, key);
  auto* states = carry.parts[0].data_ptr<uint8_t>();
  for (int64_t r = 0; r < step.rows(); ++r) {
    void* state = states + r * int64_t(kMaxBotState);
    Rng rng = rows.rng(r, kCountersAStep);
    if (rows.first(r) && bot_->begin) bot_->begin(state, rng);
    const std::byte* columns[kMaxObsColumns] = {};
    rows.observe(r, columns);
    bot_->act({.params = params_,
               .state = state,
               .obs = columns,
               .rng = rng,
               .discrete = rows.discrete(r),
               .continuous = rows.continuous(r)});
  }
  rows.put_back(step);
}

void RandomPlayer::act(TimeStep& step, Carry&, const ActKey& key) {
  const HostRows rows(step, key);
  const at::Tensor mask = step.mask.defined() ? step.mask.cpu() : step.mask;
  const ActionSpec& action = spec_.action;
  const int64_t dims = action.dims();
  for (int64_t r = 0; r < step.rows(); ++r) {
    Rng rng = rows.rng(r, uint64_t(dims));
    int64_t before = 0;  // categories of the heads before
    for (int64_t d = 0; d < dims; ++d) {
      if (!action.discrete()) {
        rows.continuous(r)[d] = rng.uniform(action.low[size_t(d)], action.high[size_t(d)]);
        continue;
      }
      const int64_t n = action.heads[size_t(d)];
      rows.discrete(r)[d] = draw(
          rng, n,
          mask.defined() ? mask.const_data_ptr<uint8_t>() + r * mask.size(1) + before : nullptr);
      before += n;
    }
  }
  rows.put_back(step);
}

void expect_drawn(const std::string& where, ActMode mode, float temperature) {
  if (mode == ActMode::mean && temperature != 1)
    throw Error("[" + where +
                "] the likeliest action is the same at every temperature; draw actions (--actions "
                "sample, mode sample), or leave the temperature out");
}

PolicyPlayer::PolicyPlayer(Policy& policy, std::string name, ActMode mode, float temperature)
    : Player(std::move(name)), policy_(&policy), mode_(mode), temperature_(temperature) {
  if (temperature == 1) return;
  if (!(temperature > 0 && temperature <= kMostTemperature))
    throw Error(
        printed("[player] a temperature must be above 0 and at most %g, got %g; the "
                "likeliest action, to which 0 would lead, is mode mean (--actions mean)",
                kMostTemperature, double(temperature)));
  expect_drawn("player", mode, temperature);
  if (const std::string why = policy.temperature_obstacle(); !why.empty())
    throw Error("[player] " + this->name() + " takes no temperature: " + why + "; leave it out");
}

void PolicyPlayer::act(TimeStep& step, Carry& carry, const ActKey& given) {
  ActKey key = given;
  key.temperature = temperature_;
  const int64_t most = policy_->block_rows();
  if (step.rows() <= most) return policy_->act(step, carry, mode_, key);
  for (int64_t begin = 0; begin < step.rows(); begin += most) {
    const int64_t count = std::min(most, step.rows() - begin);
    TimeStep part = cut_rows(step, begin, count);
    Carry state = carry.rows(begin, count);
    ActKey part_key = key;
    if (key.rows) part_key.rows += begin;
    policy_->act(part, state, mode_, part_key);
  }
}

bool same_columns(const EnvSpec& a, const EnvSpec& b) {
  const auto same = [](const ObsColumn& x, const ObsColumn& y) {
    return x.name == y.name && x.dtype == y.dtype && x.shape == y.shape &&
           x.vocabulary == y.vocabulary && x.tokens == y.tokens;
  };
  return a.observations.size() == b.observations.size() &&
         std::equal(a.observations.begin(), a.observations.end(), b.observations.begin(), same) &&
         a.action.heads == b.action.heads && a.action.dims() == b.action.dims() &&
         a.action.masked == b.action.masked;
}

void expect_same_columns(const Experiment& trained, const std::string& folder, const EnvSpec& spec,
                         const std::vector<std::string>& given) {
  if (same_columns(trained.spec(), spec)) return;
  throw Error("[player] the run " + folder + " was trained on " + trained.env().name +
              ", whose observations or actions differ from the game's" +
              (given.empty() ? "" : " with " + joined(given, " ")) +
              "; take a run of the same "
              "environment and env.* settings");
}

/// An action of a run lasts as long as it did in training, which another environment does not know.
void expect_same_pace(const Experiment& trained, const std::string& folder, const Game& game) {
  const Field* held = trained.table().find("env.action_repeat");
  if (&trained.env() == &game.env || !held) return;
  OptionTable table;
  // only read by
  game.env.describe(table, const_cast<void*>(game.params));
  const Field* here = table.find("action_repeat");
  const std::string steps = here ? here->plain() : "1";
  if (held->plain() == steps) return;
  throw Error("[player] the run " + folder + " holds each action for " + held->plain() +
              " steps of " + trained.env().name + " (env.action_repeat), and " + game.env.name +
              " for " + steps + "; let it play in " + trained.env().name +
              ", or take a run of env.action_repeat=" + steps);
}

RunPlayer::RunPlayer(const RunName& run, const Game& game, ActMode mode)
    : Player(run.checkpoint == "latest" ? run.folder : run.folder + "@" + run.checkpoint) {
  experiment_ = experiment_of(run.folder);
  // what its environment reads from files lies where the game says
  if (&experiment_->env() == &game.env)
    for (const std::string& setting : file_settings(game.env, game.params))
      experiment_->table().override_with(setting);
  for (const std::string& setting : game.acting)
    if (experiment_->table().find(name_part(setting))) experiment_->table().override_with(setting);
  if (!game.acting.empty()) experiment_->settle(/*of_run=*/true);
  expect_same_columns(*experiment_, run.folder, game.spec);
  expect_same_pace(*experiment_, run.folder, game);
  const std::string checkpoint = checkpoint_of(run.folder, run.checkpoint);
  AlgoContext context = context_of(*experiment_, game.placement, game.pool);
  context.rows = game.rows;
  policy_ = experiment_->algo().make_policy(experiment_->algo_options(), context);
  load_section(checkpoint, "algo", identity_of(*experiment_),
               [&](StateVisitor& v) { policy_->visit_state(v); });
  policy_->publish();
  player_ = std::make_unique<PolicyPlayer>(*policy_, name(), mode, game.temperature);
}

RunPlayer::~RunPlayer() = default;

std::vector<std::string> scripted_players(const EnvEntry& env) {
  std::vector<std::string> names;
  for (const Bot& bot : env.bots) names.emplace_back(bot.name);
  names.emplace_back(RandomPlayer::kRandom);
  return names;
}

Error no_player(const std::string& name, const EnvEntry& env,
                const std::vector<std::string>& others) {
  // a folder of runs, or of nothing
  if (is_folder(name)) return no_run(name);
  std::vector<std::string> known = scripted_players(env);
  known.insert(known.end(), others.begin(), others.end());
  // a folder may be misspelled before the checkpoint that is named
  const std::string folder = name.substr(0, name.rfind('@'));
  std::vector<std::string> near = near_names(name, known);
  for (std::string& run : near_runs(folder)) near.push_back(std::move(run));
  return Error("[player] '" + name + "' is neither a scripted player of " + env.name + " (" +
               joined(known) + ") nor the folder of a run, or <folder>@<checkpoint>" +
               (name.find('/') == std::string::npos || name.front() == '/'
                    ? std::string()
                    : ", seen from " + std::filesystem::current_path().string()) +
               did_you_mean(near));
}

std::unique_ptr<Player> make_player(const std::string& name, const Game& game, ActMode mode) {
  std::unique_ptr<Player> scripted;
  for (const Bot& bot : game.env.bots)
    if (name == bot.name) scripted = std::make_unique<BotPlayer>(bot, name, game.params);
  if (name == RandomPlayer::kRandom) scripted = std::make_unique<RandomPlayer>(game.spec);
  if (scripted && game.temperature != 1)
    throw Error("[player] " + name +
                " follows no policy that a temperature could be of; leave it out, or name a run");
  if (scripted) return scripted;
  if (const auto run = run_named(name)) return std::make_unique<RunPlayer>(*run, game, mode);
  throw no_player(name, game.env);
}

}  // namespace maglev
