#pragma once
// The agents of an environment that play along and do not learn: their columns, who plays them, and
// how games end. The learner is every environment's first agent.

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/env/entry.h"
#include "engine/data/rollout.h"
#include "engine/device/host_copy.h"
#include "engine/play/player.h"
#include "engine/play/seat.h"

namespace maglev {

/// Rewards of the sides of a decided game differ by at least this.
constexpr float kDecided = 1;

/// What the step in which an agent ended was to it; agents may end apart. In words, as checkpoints
/// have it.
struct LastStep {
  float reward = 0;
  int32_t terminated = 0;
  int32_t ended = 0;  ///< 0: it has not yet, or never came
};

/// How one game ended, for the learner.
struct GameResult {
  int64_t env = 0;
  double score = 0;  ///< 1 won, 0.5 drawn, 0 lost
};

/// What a step of the learners came to, all [N] on their device.
struct LearnersStep {
  const at::Tensor& reward;                  ///< f32
  const at::Tensor &terminated, &truncated;  ///< u8
  const at::Tensor& next_is_first;           ///< u8, is_first of the row behind it
};

class Rivals {
 public:
  /// Columns for the second agents of N environments. Throws Error unless `entry` has two agents
  /// with continuous or categorical actions.
  /// What players draw is a function of `seed`, the step and an environment's index.
  Rivals(const EnvEntry& entry, const EnvSpec& spec, int64_t N, at::Device device, uint64_t seed);

  /// Adds a player; returns its number. Not owned.
  int64_t add(Player& player);
  /// Who plays environment `env` from its next step on. Number 0 does at first.
  void assign(int64_t env, int64_t player) { player_of_[size_t(env)] = player; }
  int64_t player_of(int64_t env) const { return player_of_[size_t(env)]; }

  /// Sends the second agents of `io` here: the pointers of a step of the learners' store.
  void attach(StepIo& io, bool first);
  /// Every player acts for its environments, together. Between the learner's act and the step.
  void act(int64_t step);
  /// After the step: the games that ended in it, in order of environments. A game has ended when
  /// both sides have, be it in different steps; where the second agent never came, when the next
  /// begins; one without the learner is none. It is decided when a side of it terminated and their
  /// last rewards lie at least kDecided apart. Waits for a device.
  const std::vector<GameResult>& settle(const LearnersStep& step);

  const Seat& seat(int64_t player) const { return *seats_[size_t(player)]; }
  void visit_state(StateVisitor& visitor);

 private:
  /// A game that goes on: what has ended of it.
  struct RunningGame {
    LastStep learner, rival;
    int32_t settled = 0;
  };

  int64_t N_;
  uint64_t seed_;
  bool ends_apart_;
  Rollout store_;
  HostCopy ended_;
  GraphPool graphs_;
  std::vector<std::unique_ptr<Seat>> seats_;   ///< by player
  std::vector<std::vector<int64_t>> rows_of_;  ///< environments that each plays in this step
  std::vector<int64_t> player_of_;
  std::vector<RunningGame> games_;  ///< by environment
  std::vector<GameResult> results_;
};

}  // namespace maglev
