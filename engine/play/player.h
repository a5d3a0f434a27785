#pragma once
// Someone who plays agents of an environment: at random, a scripted bot, or a policy that does not
// learn. Play, evaluation and the league all see players as this.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/thread_pool.h"
#include "base/env/entry.h"
#include "base/env/env_params.h"
#include "engine/algo/policy.h"
#include "engine/host/machine.h"
#include "engine/run/run_name.h"

namespace maglev {

/// What a player is to play.
struct Game {
  const EnvEntry& env;
  const void* params;  ///< the environment's; outlive its players
  EnvSpec spec;
  Placement placement;
  ThreadPool& pool;  ///< whose threads call the player
  int64_t rows = 1;  ///< at once, at most
  /// name=value of settings that say how policies of runs act, for the runs that have them.
  std::vector<std::string> acting = {};
  float temperature = 1;  ///< of what runs' policies draw (ActKey::temperature)
};
/// The same for rivals: how a policy acts is said of the one that is judged.
Game as_trained(Game game);

/// Settings that are given beside players: what the environment is, and how policies of runs act.
struct GivenSettings {
  std::vector<std::string> env, acting;
  std::optional<int64_t> threads = {};  ///< 0: as many as the process may use; none: not given
  float temperature = 1;                ///< of what policies of runs draw
};
/// Sorts name=value: env.*, threads=N, and what says how a policy acts (OptionTable::acting) of a
/// run among `players`, names as of make_player. Throws Error that begins with `[where]`.
GivenSettings sorted_settings(const std::string& where, const std::vector<std::string>& settings,
                              const std::vector<std::string>& players);

/// The likeliest action is the same at every temperature: throws Error that begins with `[where]`
/// where it is asked for at another than 1.
void expect_drawn(const std::string& where, ActMode mode, float temperature);

class Experiment;
/// What `experiment` is about. It, and `pool`, outlive the players.
Game game_of(const Experiment& experiment, const Placement& placement, ThreadPool& pool);

/// A game by its environment's name, that no run is about, and all it refers to: on the device and
/// the threads there are.
class OpenGame {
 public:
  /// At most `rows` at once. Behind claim_threads. Throws Error.
  OpenGame(const EnvEntry& env, const GivenSettings& settings, int64_t rows);
  OpenGame(const OpenGame&) = delete;
  OpenGame& operator=(const OpenGame&) = delete;

  const Game& game() const { return game_; }

 private:
  EnvParams params_;
  Placement placement_;
  ThreadPool pool_;
  Game game_;
};

class Player {
 public:
  explicit Player(std::string name) : name_(std::move(name)) {}
  virtual ~Player() = default;

  const std::string& name() const { return name_; }
  /// Rows that act is best given at once; fixed, so that threads never show in a result.
  virtual int64_t block_rows() const { return 64; }
  /// What it remembers of `rows` rows from step to step.
  virtual Carry initial_carry(int64_t rows) = 0;
  /// Whether act may be captured (Policy::capturable).
  virtual bool capturable() const { return false; }
  /// Writes row.action of any number of rows. With `key` and a row's index every number is drawn:
  /// who else plays changes nothing. Several threads may be here at once, each with rows and a
  /// carry of its own.
  virtual void act(TimeStep& step, Carry& carry, const ActKey& key) = 0;
  /// As Policy's; who is no policy explains nothing.
  virtual std::optional<Explanation> explain(const ActedStep& acted, std::optional<Asked> asked) {
    (void)acted, (void)asked;
    return std::nullopt;
  }

 private:
  std::string name_;
};

/// Even over the range, or over the categories that are allowed: a player every environment has. On
/// the CPU whatever device the rows are on.
class RandomPlayer : public Player {
 public:
  explicit RandomPlayer(const EnvSpec& spec) : Player(kRandom), spec_(spec) {}
  static constexpr const char* kRandom = "random";

  Carry initial_carry(int64_t) override { return {}; }
  void act(TimeStep& step, Carry& carry, const ActKey& key) override;

 private:
  EnvSpec spec_;
};

/// A scripted player of an environment, on the CPU whatever device the rows are on.
class BotPlayer : public Player {
 public:
  /// `params` are the environment's, and outlive this.
  BotPlayer(const Bot& bot, std::string name, const void* params)
      : Player(std::move(name)), bot_(&bot), params_(params) {}

  Carry initial_carry(int64_t rows) override;
  void act(TimeStep& step, Carry& carry, const ActKey& key) override;

 private:
  const Bot* bot_;
  const void* params_;
};

/// Beyond it what a mask excludes might be drawn.
constexpr double kMostTemperature = 1000;

/// A policy as it stands. Does not own it.
class PolicyPlayer : public Player {
 public:
  /// `temperature` of what it draws: above 0, at most kMostTemperature, 1 as it learned. Throws
  /// Error where the policy, or the mode, cannot take another.
  PolicyPlayer(Policy& policy, std::string name, ActMode mode, float temperature = 1);

  int64_t block_rows() const override { return policy_->block_rows(); }
  Carry initial_carry(int64_t rows) override { return policy_->initial_carry(rows); }
  bool capturable() const override { return policy_->capturable(); }
  void act(TimeStep& step, Carry& carry, const ActKey& key) override;
  std::optional<Explanation> explain(const ActedStep& acted, std::optional<Asked> asked) override {
    return policy_->explain(acted, asked);
  }

 private:
  Policy* policy_;
  ActMode mode_;
  float temperature_;
};

/// The policy of a run, from a checkpoint.
class RunPlayer : public Player {
 public:
  /// Throws Error when there is no such checkpoint, or the run is of another kind of environment.
  RunPlayer(const RunName& run, const Game& game, ActMode mode);
  ~RunPlayer() override;

  int64_t block_rows() const override { return player_->block_rows(); }
  Carry initial_carry(int64_t rows) override { return player_->initial_carry(rows); }
  bool capturable() const override { return player_->capturable(); }
  void act(TimeStep& step, Carry& carry, const ActKey& key) override {
    player_->act(step, carry, key);
  }
  std::optional<Explanation> explain(const ActedStep& acted, std::optional<Asked> asked) override {
    return player_->explain(acted, asked);
  }
  Policy& policy() { return *policy_; }

 private:
  std::unique_ptr<Experiment> experiment_;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<PolicyPlayer> player_;
};

/// Players an environment offers by name: its bots, then `random`.
std::vector<std::string> scripted_players(const EnvEntry& env);
/// Whether who sees and does what `a` says can play where `b` is shown and taken.
bool same_columns(const EnvSpec& a, const EnvSpec& b);
/// Throws Error unless a run's policy can play in an environment that shows and takes `spec`, which
/// names the settings that were `given` to it, name=value.
void expect_same_columns(const class Experiment& trained, const std::string& folder,
                         const EnvSpec& spec, const std::vector<std::string>& given = {});

/// What is said of a name that is nobody's. `others`: names there are besides.
Error no_player(const std::string& name, const EnvEntry& env,
                const std::vector<std::string>& others = {});

/// A player by name: a scripted one, which takes no temperature, or a run's policy (run_named).
/// Throws Error that lists the former.
std::unique_ptr<Player> make_player(const std::string& name, const Game& game, ActMode mode);

}  // namespace maglev
