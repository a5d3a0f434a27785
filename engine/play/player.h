#pragma once
// Someone who plays agents of an environment: a scripted bot, or a policy that does not learn.
// Play, evaluation and the league all see opponents as this.

#include <cstdint>
#include <memory>
#include <string>

#include "base/env/entry.h"
#include "engine/algo/algorithm.h"

namespace maglev {

class Player {
 public:
  explicit Player(std::string name) : name_(std::move(name)) {}
  virtual ~Player() = default;

  const std::string& name() const { return name_; }
  /// What it remembers of `rows` rows from step to step.
  virtual Carry initial_carry(int64_t rows) = 0;
  /// Writes row.action of any number of rows. `step` counts time steps: with it and `seed` every
  /// number is drawn.
  virtual void act(Row& row, Carry& carry, uint64_t seed, int64_t step) = 0;

 private:
  std::string name_;
};

/// A scripted player of an environment, on the CPU whatever device the rows are on.
class BotPlayer : public Player {
 public:
  BotPlayer(const Bot& bot, std::string name) : Player(std::move(name)), bot_(&bot) {}

  Carry initial_carry(int64_t rows) override;
  void act(Row& row, Carry& carry, uint64_t seed, int64_t step) override;

 private:
  const Bot* bot_;
};

/// A policy as it stands. Does not own it.
class PolicyPlayer : public Player {
 public:
  PolicyPlayer(Algorithm& algorithm, std::string name, ActMode mode)
      : Player(std::move(name)), algorithm_(&algorithm), mode_(mode) {}

  Carry initial_carry(int64_t rows) override { return algorithm_->initial_carry(rows); }
  void act(Row& row, Carry& carry, uint64_t seed, int64_t step) override;

 private:
  Algorithm* algorithm_;
  ActMode mode_;
};

/// The policy of a run, from its newest checkpoint, made for `rows` rows.
class RunPlayer : public Player {
 public:
  /// `context` says what it will play: columns, device, threads. Throws Error when `folder` holds
  /// no run with a checkpoint, or one of another kind of environment.
  RunPlayer(const std::string& folder, const AlgoContext& context, ActMode mode);
  ~RunPlayer() override;

  Carry initial_carry(int64_t rows) override { return policy_->initial_carry(rows); }
  void act(Row& row, Carry& carry, uint64_t seed, int64_t step) override {
    policy_->act(row, carry, seed, step);
  }

 private:
  std::unique_ptr<class Experiment> experiment_;
  std::unique_ptr<Algorithm> algorithm_;
  std::unique_ptr<PolicyPlayer> policy_;
};

/// A player by name: one of the environment's bots, or the folder of a run. Throws Error that lists
/// the bots.
std::unique_ptr<Player> make_player(const std::string& name, const EnvEntry& env,
                                    const AlgoContext& context, ActMode mode);

}  // namespace maglev
