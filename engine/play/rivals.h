#pragma once
// The agents of an environment that play along and do not learn: their columns, who plays them, and
// how games end. The learner is every environment's first agent.

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/env/entry.h"
#include "engine/data/rollout.h"
#include "engine/play/player.h"

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
  Rivals(const EnvEntry& entry, const EnvSpec& spec, int64_t N, at::Device device);

  /// Adds a player; returns its number. Not owned.
  int64_t add(Player& player);
  /// Who plays environment `env` from its next step on. Number 0 does at first.
  void assign(int64_t env, int64_t player) { player_of_[size_t(env)] = player; }
  int64_t player_of(int64_t env) const { return player_of_[size_t(env)]; }

  /// Sends the second agents of `io` here: the pointers of a step of the learners' store.
  void attach(StepIo& io, bool first);
  /// Every player acts for its environments, together. Between the learner's act and the step.
  void act(uint64_t seed, int64_t step);
  /// After the step: the games that ended in it, in order of environments. `reward` [N] is the
  /// learners'. A game is decided when it terminated with rewards at least kDecided apart. Waits for a
  /// device.
  const std::vector<GameResult>& settle(const float* reward);

  void visit_state(StateVisitor& visitor);

 private:
  struct Seat {
    Player* player;
    Carry carry;              ///< of all N rows, used where it plays
    std::vector<int64_t> at;  ///< environments it plays in this step
  };

  int64_t N_;
  Rollout store_;
  std::vector<Seat> seats_;
  std::vector<int64_t> player_of_;
  std::vector<GameResult> results_;
};

}  // namespace maglev
