#pragma once
// Self-play: whom the learner meets, and how good everybody is. Scripted players, other runs, the
// learner itself and its past selves; strength by Elo's rating (Elo, "The rating of chessplayers,
// past and present", 1978), hard matchmaking after prioritised fictitious self-play (Vinyals et
// al., "Grandmaster level in StarCraft II", 2019).

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/config/options.h"
#include "engine/algo/experiment.h"
#include "engine/play/rivals.h"

namespace maglev {

/// Rating points a game is worth at most, and where everybody begins.
constexpr double kEloGain = 16, kEloStart = 1000;

/// The score expected of `elo` against `other`, in [0, 1].
double elo_expected(double elo, double other);

/// One line of the table.
struct LeagueRow {
  std::string name;
  std::string run = {};  ///< a run's policy by its whole name, else empty
  double elo = kEloStart;
  int64_t games = 0, wins = 0, draws = 0, losses = 0;  ///< the learner's, against this player
};

/// The entries of train.opponents. Throws Error where one is empty.
std::vector<std::string> opponents_of(const RunOptions& run);
/// Whether past selves are among them.
bool meets_past(const RunOptions& run);
/// How many players they are at most: several `past` are the same past selves.
int64_t most_rivals(const RunOptions& run);
/// The run that an entry names, whose policy plays; none: a scripted player, `past` or `self`.
std::optional<RunName> opponent_run(const EnvEntry& env, const std::string& name);
/// The same list, in which runs have names that mean these policies from every folder, also when
/// they have trained on (lasting_name). A checkpoint that is gone is an Error, or where there is
/// `replaced` a line of it, and the run's newest takes its place. Throws Error.
std::string lasting_opponents(const Experiment& experiment,
                              std::vector<std::string>* replaced = nullptr);

class League {
 public:
  /// Players act on threads of `pool`. Throws Error on unknown opponents, or an environment of
  /// another number of players.
  League(const Experiment& experiment, const Placement& placement, ThreadPool& pool,
         Policy& learner);

  Rivals& rivals() { return *rivals_; }
  /// Rates the games that ended and chooses the next opponents of their environments.
  void settle(const LearnersStep& step);
  /// The learner as it is now becomes a past self when train.past_every steps went by.
  void remember(int64_t step);

  double elo() const { return elo_; }
  std::vector<LeagueRow> table() const;
  /// "elo/learner", and of each player "elo/<name>" and "score/<name>": the learner's mean score of
  /// the last games against it.
  std::vector<std::pair<std::string, double>> figures() const;
  /// The table as JSON, with the learner's own rating.
  std::string json(int64_t step) const;

  void visit_state(StateVisitor& visitor);
  /// After a visit that loaded: past selves act as they were loaded.
  void publish();

 private:
  struct Member {
    std::string name;      ///< of a past self: past@<step>; of a run without the way there
    std::string run = {};  ///< see LeagueRow
    bool is_self = false;  ///< the learner as it is
    bool in_play;          ///< a past self that is none yet is not
    double elo;
    double recent;  ///< moving mean of the learner's score
    int64_t games, wins, draws, losses;
  };

  double elo_of(const Member& member) const;
  /// Draws who plays `env` next.
  int64_t draw(int64_t env);

  const Experiment* experiment_;
  Policy* learner_;
  std::unique_ptr<Rivals> rivals_;
  std::vector<std::unique_ptr<Player>> players_;
  std::vector<Member> members_;               ///< by the rivals' numbers
  std::vector<std::vector<int64_t>> groups_;  ///< entries of train.opponents: members of each
  std::vector<std::unique_ptr<Policy>> past_;
  int64_t first_past_ = 0;  ///< member number of the first past self
  int64_t remembered_ = 0;  ///< past selves ever made
  int64_t remembered_step_ = 0;
  int64_t games_ = 0;
  double elo_ = kEloStart;
};

}  // namespace maglev
