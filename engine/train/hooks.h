#pragma once
// What a program that embeds Maglev is told while a run trains: the same for every algorithm. Each
// hook is called on the loop's thread (`epoch` on the one that learns, see train.overlap); one that
// is empty costs nothing. One that wants the run to save and end calls
// SignalGuard::ask_to_leave(). Only `episodes` and `epoch` bring device values to the host, which
// on a GPU waits for it. Where several processes share a run its first one tells, `episodes` and
// `epoch` of its own environments.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/metrics/sink.h"
#include "engine/data/step_window.h"
#include "engine/data/vec_env.h"

namespace maglev {

class Trainer;

/// An episode that ended, as the environments gave it.
struct FinishedEpisode {
  int64_t environment;  ///< which of env.count
  int64_t step;         ///< environment steps of the run, all rows, when it had ended
  double episode_return;
  int64_t length;   ///< steps
  bool terminated;  ///< false: cut by a limit
};

/// Mean figures by name, e.g. {"loss/policy", 0.02}; one that nothing was added to is NaN.
using Figures = std::vector<std::pair<std::string, double>>;

struct Hooks {
  /// The run's folder, once it is there.
  std::function<void(const std::string& folder)> folder;
  /// Before the first iteration, warm-up behind; also of a run that is resumed.
  std::function<void(const Trainer&)> training_start;
  /// Before an iteration, at environment step `step`.
  std::function<void(int64_t step)> iteration_start;
  /// After an iteration in which any ended, by time and environment. Their actions were taken by
  /// the policy before that iteration's updates.
  std::function<void(std::span<const FinishedEpisode>)> episodes;
  /// After each pass an update makes over its data: PPO's epochs 0, 1, ..; 0 where an update is one
  /// pass. Figures of that pass alone. Iterations are not captured as graphs then.
  std::function<void(int64_t epoch, const Figures&)> epoch;
  /// Rows of metrics as sinks get them, soon after the iteration they are of.
  std::function<void(const MetricRow&)> row;
  /// After the last checkpoint, whatever ended the run: not where an error did.
  std::function<void(const Trainer&)> training_end;
};

/// Finds the episodes that end in collected steps.
class EpisodeLog {
 public:
  /// Takes up the episodes that are running. Waits for a device.
  explicit EpisodeLog(const VecEnv& envs);

  /// Those that ended in the steps of `window`, of which the last was the run's step `step`; valid
  /// until the next call. Waits for a device.
  std::span<const FinishedEpisode> read(StepWindow& window, int64_t step);

 private:
  int64_t agents_;
  std::vector<RunningEpisode> running_;
  std::vector<FinishedEpisode> finished_;
};

}  // namespace maglev
