#pragma once
// Someone who plays agents of an environment: a scripted bot, or a policy that does not learn.
// Play, evaluation and the league all see opponents as this.

#include <cstdint>
#include <memory>
#include <string>

#include "base/core/thread_pool.h"
#include "base/env/entry.h"
#include "engine/algo/policy.h"
#include "engine/host/machine.h"

namespace maglev {

/// What a player is to play.
struct Game {
  const EnvEntry& env;
  EnvSpec spec;
  Placement placement;
  ThreadPool& pool;  ///< whose threads call the player
  int64_t rows = 1;  ///< at once, at most
};

class Player {
 public:
  explicit Player(std::string name) : name_(std::move(name)) {}
  virtual ~Player() = default;

  const std::string& name() const { return name_; }
  /// What it remembers of `rows` rows from step to step.
  virtual Carry initial_carry(int64_t rows) = 0;
  /// Whether act may be captured (Policy::capturable).
  virtual bool capturable() const { return false; }
  /// Writes row.action of any number of rows. With `key`, whose purpose is opponent, and a row's
  /// index every number is drawn: who else plays changes nothing.
  virtual void act(TimeStep& step, Carry& carry, const ActKey& key) = 0;

 private:
  std::string name_;
};

/// A scripted player of an environment, on the CPU whatever device the rows are on.
class BotPlayer : public Player {
 public:
  BotPlayer(const Bot& bot, std::string name) : Player(std::move(name)), bot_(&bot) {}

  Carry initial_carry(int64_t rows) override;
  void act(TimeStep& step, Carry& carry, const ActKey& key) override;

 private:
  const Bot* bot_;
};

/// A policy as it stands. Does not own it.
class PolicyPlayer : public Player {
 public:
  PolicyPlayer(Policy& policy, std::string name, ActMode mode)
      : Player(std::move(name)), policy_(&policy), mode_(mode) {}

  Carry initial_carry(int64_t rows) override { return policy_->initial_carry(rows); }
  bool capturable() const override { return policy_->capturable(); }
  void act(TimeStep& step, Carry& carry, const ActKey& key) override;

 private:
  Policy* policy_;
  ActMode mode_;
};

/// The policy of a run, from its newest checkpoint.
class RunPlayer : public Player {
 public:
  /// Throws Error when `folder` holds no run with a checkpoint, or one of another kind of
  /// environment.
  RunPlayer(const std::string& folder, const Game& game, ActMode mode);
  ~RunPlayer() override;

  Carry initial_carry(int64_t rows) override { return player_->initial_carry(rows); }
  bool capturable() const override { return player_->capturable(); }
  void act(TimeStep& step, Carry& carry, const ActKey& key) override {
    player_->act(step, carry, key);
  }

 private:
  std::unique_ptr<class Experiment> experiment_;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<PolicyPlayer> player_;
};

/// A player by name: one of the environment's bots, or the folder of a run. Throws Error that lists
/// the bots.
std::unique_ptr<Player> make_player(const std::string& name, const Game& game, ActMode mode);

}  // namespace maglev
