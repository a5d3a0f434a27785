#include "engine/play/evaluate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "base/core/printed.h"
#include "base/env/entry.h"
#include "base/trace/span.h"
#include "engine/data/rollout.h"
#include "engine/data/vec_env.h"
#include "engine/device/host_copy.h"
#include "engine/device/repeated_stage.h"
#include "engine/play/env_room.h"
#include "engine/play/rivals.h"

namespace maglev {
namespace {

void summarise(EvalResult& result, const std::vector<double>& lengths) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), n = double(result.returns.size());
  result.episodes = int64_t(result.returns.size());
  result.return_mean = result.return_std = result.return_min = result.return_max =
      result.length_mean = nan;
  if (result.returns.empty()) return;
  double sum = 0, squares = 0, length = 0;
  for (double r : result.returns) sum += r;
  for (double l : lengths) length += l;
  result.return_mean = sum / n;
  result.length_mean = length / n;
  for (double r : result.returns) squares += (r - result.return_mean) * (r - result.return_mean);
  result.return_std = n > 1 ? std::sqrt(squares / (n - 1)) : 0;
  auto [low, high] = std::minmax_element(result.returns.begin(), result.returns.end());
  result.return_min = *low, result.return_max = *high;
}

/// What a time step of all rows came to, on the host.
struct StepSeen {
  const float* reward;
  const uint8_t *terminated, *truncated;
  const uint8_t* first;  ///< whether the step only reset the environment
};

/// What the episodes of an evaluation come to, environment by environment.
class EpisodeTally {
 public:
  /// `envs` count their events since they began; `last` is the time step that was seen last.
  EpisodeTally(const EvalOptions& options, VecEnv& envs, const TimeStep& last)
      : options_(options),
        envs_(envs),
        last_(last),
        N_(envs.count()),
        open_(options.steps > 0 ? N_ : std::min(N_, options.episodes)),
        owed_(size_t(N_), 0),
        running_(size_t(N_), 0),
        length_(size_t(N_), 0),
        waited_(size_t(N_), 0),
        ends_(size_t(N_)),
        returns_(static_cast<size_t>(N_)) {
    for (int64_t i = 0; i < options.episodes; ++i) owed_[size_t(i % N_)] += 1;
    result_.seed = options.seed, result_.envs = N_;
  }

  /// Whether time step `t` is still to be played.
  bool plays(int64_t t) const {
    return open_ > 0 && (options_.steps == 0 || t * N_ < options_.steps);
  }

  void count(const GameResult& game) {
    if (!counts(game.env)) return;
    (game.score == 1 ? result_.wins : game.score == 0 ? result_.losses : result_.draws) += 1;
    end_episode(game.env);
  }

  void count(const StepSeen& seen) {
    for (int64_t i = 0; i < N_; ++i) {
      const int64_t row = i * envs_.agents();
      if (!counts(i)) continue;
      // one step only resets, more are those of a first agent that waits for others
      waited_[size_t(i)] = seen.first[row] ? waited_[size_t(i)] + 1 : 0;
      if (!seen.first[row]) {
        running_[size_t(i)] += seen.reward[row];
        length_[size_t(i)] += 1;
      }
      if (seen.terminated[row] || seen.truncated[row]) {
        ends_[size_t(i)] = {seen.terminated[row], seen.truncated[row]};
        // that of a game counts when the game has ended
        if (!options_.against) end_episode(i);
      } else if (options_.steps == 0 && (length_[size_t(i)] >= double(options_.longest_episode) ||
                                         waited_[size_t(i)] > options_.longest_episode)) {
        // an agent that never fails where there is no limit, or never comes, would play for ever
        if (!options_.against && length_[size_t(i)] > 0) {
          keep(i);
          result_.cut += 1, owed_[size_t(i)] -= 1;
        }
        give_up(i);
      }
    }
  }

  /// Of all that was counted; ends the tally.
  EvalResult result() {
    for (int64_t i = 0; tells() && i < N_; ++i)
      if (length_[size_t(i)] > 0) tell(i, {});
    if (options_.steps > 0) totals_ += envs_.take_totals();
    // where it was stopped
    for (int64_t i = 0; options_.steps == 0 && i < N_; ++i)
      if (owed_[size_t(i)] > 0) give_up(i);
    for (const auto& r : returns_)
      result_.returns.insert(result_.returns.end(), r.begin(), r.end());
    summarise(result_, lengths_);
    result_.steps = totals_.steps;
    const auto& events = envs_.spec().events;
    for (size_t k = 0; k < events.size(); ++k) {
      result_.events.emplace_back(events[k], totals_.events[k]);
      result_.events_per_1k.emplace_back(
          events[k], totals_.steps ? 1000 * totals_.events[k] / double(totals_.steps) : 0);
    }
    for (const EventShare& share : envs_.spec().shares)
      result_.shares.emplace_back(share.name, share_of(share, totals_.events));
    if (const auto& games = envs_.spec().games; games && !options_.against) {
      const auto counted = [&](int32_t k) { return std::llround(totals_.events[k]); };
      result_.wins = counted(games->won), result_.draws = counted(games->drawn);
      result_.losses = counted(games->lost);
    }
    return std::move(result_);
  }

 private:
  /// How an episode ended; neither: it goes on.
  struct Ends {
    uint8_t terminated = 0, truncated = 0;
  };

  bool counts(int64_t env) const { return options_.steps > 0 || owed_[size_t(env)] > 0; }
  bool tells() const { return options_.life && options_.steps > 0; }

  void end_episode(int64_t env) {
    if (tells()) {
      tell(env, ends_[size_t(env)]);
    } else {
      keep(env);
    }
    running_[size_t(env)] = length_[size_t(env)] = 0;
    if (options_.steps == 0 && --owed_[size_t(env)] == 0) close(env);
  }

  void keep(int64_t env) {
    returns_[size_t(env)].push_back(running_[size_t(env)]);
    lengths_.push_back(length_[size_t(env)]);
  }

  // what the environment counted since its last life ended is this one's
  void tell(int64_t env, const Ends& ends) {
    const EpisodeTotals own = envs_.take_totals(env, env + 1);
    totals_ += own;
    options_.life({.row = env * envs_.agents(),
                   .steps = own.steps,
                   .terminated = ends.terminated != 0,
                   .truncated = ends.truncated != 0,
                   .events = std::span(own.events).first(envs_.spec().events.size()),
                   .last = last_});
  }

  void give_up(int64_t env) {
    result_.given_up += owed_[size_t(env)];
    close(env);
  }

  void close(int64_t env) {
    totals_ += envs_.take_totals(env, env + 1);
    owed_[size_t(env)] = 0;
    --open_;
  }

  const EvalOptions& options_;
  VecEnv& envs_;
  const TimeStep& last_;
  int64_t N_;
  int64_t open_;                          ///< environments that owe episodes, or all
  std::vector<int64_t> owed_;             ///< episodes, by environment; a run of steps owes none
  std::vector<double> running_, length_;  ///< of the present episodes
  std::vector<int64_t> waited_;           ///< time steps since the first agent's last one
  std::vector<Ends> ends_;                ///< of the first agents' last episodes
  std::vector<std::vector<double>> returns_;  ///< of ended ones, by environment
  std::vector<double> lengths_;
  EpisodeTotals totals_;
  EvalResult result_;
};

}  // namespace

std::string unended_note(int64_t cut, int64_t given_up, int64_t longest_episode) {
  const std::string steps = " after " + by_thousands(longest_episode) + " steps and ";
  std::string note;
  if (cut > 0)
    note = counted(cut, "episode") + " had not ended" + steps +
           (cut == 1 ? "counts as far as it came" : "count as far as they came");
  if (given_up > 0)
    note += (note.empty() ? "" : "; ") + counted(given_up, "episode") +
            " had not ended, or not begun," + steps + (given_up == 1 ? "does" : "do") +
            " not count";
  return note;
}

EvalResult evaluate(Player& player, const Game& game, const EvalOptions& options) {
  const at::Device device = game.placement.device;
  const auto begin = std::chrono::steady_clock::now();
  const int64_t N = options.envs > 0
                        ? options.envs
                        : std::min(kMostEvalEnvs, options.steps > 0 ? 64 : options.episodes);
  if (options.steps == 0 && options.episodes < 1)
    throw Error("[eval] needs at least 1 episode or 1 step, got " +
                std::to_string(options.episodes));
  expect_env_room(game.env, game.params, N, device);
  VecEnv envs(game.env, game.params, N, options.seed, device, game.pool,
              /*first_env=*/0, /*learners=*/options.against ? 1 : 0);
  const EnvSpec& spec = envs.spec();
  const int64_t agents = envs.agents();
  const int64_t block = block_rows(player.block_rows(), envs.rows(), agents);
  Rollout store(spec, {.T = 1, .rows = envs.rows(), .block_rows = block}, {}, device);
  const Carry carry = player.initial_carry(envs.rows());
  std::vector<Carry> carries;
  for (const TimeStep& part : store.step(0).blocks)
    carries.push_back(carry.rows(part.first, part.rows()));
  StepIo first_io = store.first_io(), io = store.io(0);
  std::optional<Rivals> rivals;
  if (options.against) {
    rivals.emplace(envs.entry(), spec, N, device, options.seed);
    rivals->add(*options.against);
    rivals->attach(first_io, /*first=*/true);
    rivals->attach(io, /*first=*/false);
  }
  envs.reset(first_io);

  // a time step in two stages, between which rivals act; a replayed one counts on the device
  GraphPool graphs(device);
  RepeatedStage acting("act", "act"), stepping("step", "env_step");
  const bool replayed = graphs.captures() && player.capturable();
  const at::Tensor time = at::zeros({1}, at::TensorOptions(at::kLong).device(device));
  ActKey key{.seed = options.seed, .purpose = Purpose::eval};
  if (replayed) key.base = time.const_data_ptr<int64_t>();
  const auto act = [&](int64_t b) {
    const auto span = trace::stage("act");
    player.act(store.step(0).blocks[size_t(b)], carries[size_t(b)], key);
  };
  const auto act_all = [&] {
    for (size_t b = 0; b < carries.size(); ++b) act(int64_t(b));
  };
  const auto step = [&] {
    const auto span = trace::stage("env_step");
    envs.step(io);
    // what was seen last is what the policy sees next
    store.roll_over();
    time.add_(1);
  };
  HostCopy seen(device);
  const Batch& batch = store.batch();

  EpisodeTally tally(options, envs, store.step(0));
  for (int64_t t = 0; tally.plays(t); ++t) {
    if (options.stop && options.stop(t)) break;
    if (replayed) {
      acting.run(graphs, act_all);
    } else {
      key.step = t;
      game.pool.run(int64_t(carries.size()), act);
    }
    if (rivals) {
      const auto span = trace::stage("rivals");
      rivals->act(t);
    }
    if (envs.transfers()) step();
    else stepping.run(graphs, step);
    // episodes that ended
    const auto settling = trace::stage("settle");
    seen.start({batch.reward[0], batch.terminated[0], batch.truncated[0], batch.is_first[1]});
    seen.wait();
    tally.count({.reward = seen.part<float>(0),
                 .terminated = seen.part<uint8_t>(1),
                 .truncated = seen.part<uint8_t>(2),
                 .first = seen.part<uint8_t>(3)});
    // a game ends with the learner's episode or behind it
    if (rivals)
      for (const GameResult& result : rivals->settle(
               {batch.reward[0], batch.terminated[0], batch.truncated[0], batch.is_first[1]}))
        tally.count(result);
  }
  EvalResult result = tally.result();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace maglev
