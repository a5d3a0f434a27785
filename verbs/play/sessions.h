#pragma once
// Games that pages look at. A game is a function of its seed and of how actions are chosen, so
// whoever asks changes nothing but which steps have been computed: of each game the last ones are
// kept, and further ones are computed when they are asked for. Threads: functions may be called
// from any.

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "verbs/play/match.h"

namespace maglev::verbs::play {

/// A step: what there was, what was done, and what came of it.
struct Frame {
  int64_t number = 0;  ///< since the game began
  int64_t episode = 0, step = 0;
  bool acted = true;         ///< false: the end of an episode, where nobody acts
  bool over = false;         ///< this step ended the episode
  std::string picture = {};  ///< before the step, bytes of a PNG file
  std::vector<float> action = {}, rewards = {};
  std::vector<double> returns = {};
  std::string events = {};                 ///< since the game began
  std::optional<Explanation> policy = {};  ///< of the explained player, without attributions
  ActedStep by = {};                       ///< what it made that of
};

/// Which game is meant.
struct GameKey {
  int64_t seed = 1;
  ActMode mode = ActMode::mean;
  bool operator==(const GameKey&) const = default;
};

using MakeMatch = std::function<std::unique_ptr<Match>(const GameKey&)>;

/// One game from its beginning.
class RunningGame {
 public:
  static constexpr int64_t kMostFrames = 1000;
  static constexpr int64_t kMostBytes = int64_t(128) << 20;

  explicit RunningGame(std::unique_ptr<Match> match, int64_t most_frames = kMostFrames);

  int64_t first() const { return frames_.empty() ? next_ : frames_.front().number; }
  int64_t next() const { return next_; }  ///< number of the first step that is still to come
  /// Throws Error where it is not kept.
  const Frame& frame(int64_t number) const;
  /// Computes the next one.
  void advance();
  /// What the explained player made of a kept step. None: nobody explains.
  std::optional<Explanation> explain(int64_t number, Asked asked) const;
  const Match& match() const { return *match_; }

 private:
  std::unique_ptr<Match> match_;
  int64_t most_frames_;
  size_t explained_ = 0;  ///< the first player that can; none can: as many as there are
  std::deque<Frame> frames_;
  int64_t bytes_ = 0;
  int64_t next_ = 0;
};

class PlaySessions {
 public:
  /// Games at once; further ones take the place of the one that was asked for longest ago.
  static constexpr size_t kMostGames = 3;
  /// Steps one answer holds at most, and seconds it takes to compute.
  static constexpr int64_t kMostSteps = 64;
  static constexpr double kSeconds = 0.25;

  explicit PlaySessions(MakeMatch make) : make_(std::move(make)) {}

  /// {"env", "players": [names], "heads": [categories] or [], "low", "high", "fps": steps a second
  /// that the environment names, or 0, "seed", "actions"}
  std::string about_json(const GameKey& key);

  /// {"game": tells apart games begun anew, "first", "next": kept are [first, next), "frames":
  /// [{"n", "episode", "step", "acted", "over", "action", "rewards", "returns", "events",
  /// "picture", and of a policy "probs" or "mean" and "deviation", "value"}]}: steps from `from`
  /// on, at most `count`; at least one. One that is not kept any more, or not yet next, is replaced
  /// by the nearest.
  std::string frames_json(const GameKey& key, int64_t from, int64_t count);
  /// {"layers": [{"name", "shape", "values"}], "inputs": [{"name", "shape", "seen", "gradient",
  /// "integrated"}], "asked", "baseline"} of a kept step: a layer's channels are means over their
  /// places, an input's attributions sums over its channels. Throws Error where the step is not
  /// kept.
  std::string insight_json(const GameKey& key, int64_t number, Asked asked);

 private:
  struct Open {
    GameKey key;
    int64_t begun;
    std::unique_ptr<RunningGame> game;
  };
  Open& game_of(const GameKey& key);

  MakeMatch make_;
  std::mutex mutex_;
  std::list<Open> open_;  ///< the one that was asked last first
  int64_t begun_ = 0;
};

}  // namespace maglev::verbs::play
