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

/// How one game ended, for the learner.
struct GameResult {
  int64_t env = 0;
  double score = 0;  ///< 1 won, 0.5 drawn, 0 lost
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
  /// After the step: the games that ended in it, in order of environments. `reward` [N] f32 is the
  /// learners', on their device. A game is decided when it terminated with rewards at least
  /// kDecided apart. Waits for a device.
  const std::vector<GameResult>& settle(const at::Tensor& reward);

  const Seat& seat(int64_t player) const { return *seats_[size_t(player)]; }
  void visit_state(StateVisitor& visitor);

 private:
  int64_t N_;
  uint64_t seed_;
  Rollout store_;
  HostCopy ended_;
  GraphPool graphs_;
  std::vector<std::unique_ptr<Seat>> seats_;   ///< by player
  std::vector<std::vector<int64_t>> rows_of_;  ///< environments that each plays in this step
  std::vector<int64_t> player_of_;
  std::vector<GameResult> results_;
};

}  // namespace maglev
