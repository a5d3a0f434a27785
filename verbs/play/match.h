#pragma once
// One environment played by anybody: a player for each of its agents, step by step, on the CPU.

#include <memory>
#include <string>
#include <vector>

#include "base/core/thread_pool.h"
#include "base/env/host_batch.h"
#include "base/picture/canvas.h"
#include "engine/data/rollout.h"
#include "engine/play/player.h"
#include "engine/play/rivals.h"
#include "verbs/play/human.h"
#include "verbs/play/keyboard.h"

namespace maglev {

class Match {
 public:
  /// `names` are one player an agent: a scripted player of the environment, the folder of a run,
  /// `random`, or `human` at `keyboard` (null: there is none). Throws Error on wrong ones.
  Match(const EnvEntry& entry, const GivenSettings& settings, const std::vector<std::string>& names,
        Keyboard* keyboard, ActMode mode, uint64_t seed);

  /// Whether the next step wants a key of the person who takes part.
  bool waits() { return human_plays() && human_->waits(); }
  /// Whether it is the person's keys that steps wait for, and no clock.
  bool by_turns() const { return human_plays() && human_->by_turns(); }
  /// One step of everybody. False when it only began the next episode.
  bool step();
  /// Of the last step.
  bool episode_over() const { return episode_over_; }
  /// What a player acted on in the last step, and with which memory: a copy, for later questions.
  ActedStep acted(size_t agent);
  /// Of the last step, agent by agent.
  std::vector<float> rewards() const;
  /// Of the last step, [dims] of agent 0.
  std::vector<float> action() const;

  /// Draws the present state; the environment must have a picture.
  void paint(Canvas& canvas) const;
  /// The last step of agent 0 in words: action, reward, numbers it sees.
  std::string last_step() const;

  const EnvEntry& entry() const { return *entry_; }
  const EnvSpec& spec() const { return spec_; }
  const std::vector<std::unique_ptr<Player>>& players() const { return players_; }
  int64_t steps() const { return steps_; }  ///< of this episode
  int64_t episodes() const { return episodes_; }
  const std::vector<double>& returns() const { return returns_; }  ///< of this episode, per agent
  /// Episodes in which somebody was terminated and an agent's last reward lies at least 1 above every
  /// other's, per agent.
  const std::vector<int64_t>& wins() const { return wins_; }
  int64_t most_steps() const { return spec_.max_steps; }  ///< of an episode; 0: no limit
  /// What the environment counted since the match began, e.g. "goals 2, conceded 1".
  std::string events() const;

 private:
  void count_win();
  /// Whether a person takes part whose episode goes on.
  bool human_plays() const { return human_ && !episode_over_ && !last_[human_agent_].ended; }

  const EnvEntry* entry_;
  std::unique_ptr<HostBatch> env_;
  EnvSpec spec_;
  uint64_t seed_;
  ThreadPool pool_{1};
  std::unique_ptr<Rollout> store_;
  std::vector<std::unique_ptr<Player>> players_;
  HumanPlayer* human_ = nullptr;         ///< one of them; null: none is
  size_t human_agent_ = 0;               ///< whose it is
  std::vector<Carry> carries_, before_;  ///< as they are, and as they were before the last step
  std::vector<double> returns_;
  std::vector<int64_t> wins_;
  std::vector<LastStep> last_;  ///< by agent, of the present episode
  int64_t time_ = 0, steps_ = 0, episodes_ = 0;
  bool episode_over_ = false;
};

}  // namespace maglev
