#pragma once
// One protocol for judging a player: fixed seeds, frozen normalisers, environments of its own.
// Training never notices.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/play/player.h"

namespace maglev {

/// Environments at once, unless more are asked for.
constexpr int64_t kMostEvalEnvs = 256;

/// An episode of an evaluation, whole or as far as it came when a run of steps ended.
struct Life {
  int64_t row;                     ///< of its environment's first agent in the columns
  int64_t steps;                   ///< transitions
  bool terminated, truncated;      ///< neither: it was going on
  std::span<const double> events;  ///< what it counted, by EnvSpec::events
  const TimeStep& last;            ///< all rows; of this one the episode's last observation
};

struct EvalOptions {
  int64_t episodes =
      100;  ///< each environment's first ones count, so short episodes are not favoured
  int64_t steps =
      0;  ///< > 0: run this many steps of all environments together instead of counting episodes
  int64_t envs = 0;  ///< environments at once; 0: one an episode, at most 256
  /// Where episodes count: one that has not ended after this many steps is cut and counts as far as
  /// it came, so that those who fail do not speak for those who last; the others its environment
  /// owes are given up. So is a game of two, which nobody has won.
  int64_t longest_episode = 100'000;
  uint64_t seed = 1'000'003;
  /// Plays every environment's second agent; null: the player plays all agents.
  Player* against = nullptr;
  /// In a run of steps: hears of each life, by time and environment, instead of their returns being
  /// kept, so that memory does not grow with steps. Waits for a device at each.
  std::function<void(const Life&)> life = {};
  /// Asked before every time step `t`: where it says so, what has ended by then is the result.
  std::function<bool(int64_t t)> stop = {};
};

struct EvalResult {
  uint64_t seed = 0;
  int64_t envs = 0, episodes = 0, steps = 0;
  int64_t cut = 0;       ///< of the episodes, those that count as far as they came
  int64_t given_up = 0;  ///< episodes that were to count and did not end, or did not begin
  /// Over the episodes; NaN when there are none, or lives were told of instead.
  double return_mean = 0, return_std = 0, return_min = 0, return_max = 0, length_mean = 0;
  std::vector<std::pair<std::string, double>> events, events_per_1k;  ///< totals; per 1,000 steps
  std::vector<std::pair<std::string, double>> shares;  ///< EnvSpec::shares of the totals
  /// Of the episodes, against a player, or where the environment counts games (EnvSpec::games).
  int64_t wins = 0, draws = 0, losses = 0;
  std::vector<double> returns;  ///< one an episode, by environment and then in time
  double seconds = 0;
};

/// What became of episodes that did not end, for people: "2 episodes had not ended after 100,000
/// steps and count as far as they came". Empty where there were none.
std::string unended_note(int64_t cut, int64_t given_up, int64_t longest_episode);

/// Evaluates `player` in `game`, where it plays all agents unless another one does. Throws Error on
/// options that contradict each other. The same to the bit for any number of threads.
EvalResult evaluate(Player& player, const Game& game, const EvalOptions& options);

}  // namespace maglev
