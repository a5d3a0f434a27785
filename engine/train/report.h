#pragma once
// What of a run reaches the host and people: figures that are summed where they arise, brought over
// once a flush by one asynchronous copy, and completed into a row of metrics. The only way a device
// value gets here.
// Threads: progress() is read by any; everything else is the loop's.

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/metrics/sink.h"
#include "engine/algo/metrics.h"
#include "engine/data/replay.h"
#include "engine/data/vec_env.h"
#include "engine/device/host_copy.h"
#include "engine/device/precision.h"
#include "engine/play/league.h"
#include "engine/train/finite_check.h"
#include "engine/train/stage_times.h"

namespace maglev {

/// Whose figures a report gathers. What is pointed at outlives it.
struct ReportSources {
  VecEnv* envs = nullptr;
  const Replay* replay = nullptr;  ///< null: there is none
  bool replay_in_each = false;     ///< every process has the same, a dataset
  const FiniteCheck* finite = nullptr;
  const League* league = nullptr;  ///< null: every agent learns
  DeviceTimes* stages = nullptr;   ///< of a GPU; null: times() are what the host measured
  Precision precision = Precision::fp32;
  Group* group = nullptr;  ///< whose figures and episodes are reported; null: this process's
  /// Called where the finite check's flag has fallen before step `step`. Throws.
  std::function<void(int64_t step)> not_finite;
};

class Report {
 public:
  explicit Report(at::Device device);
  /// Once, before the first begin().
  void watch(ReportSources sources) { from_ = std::move(sources); }

  /// Where algorithms add their figures.
  Metrics& metrics() { return metrics_; }
  PhaseTimes& times() { return times_; }
  /// How far the run is; the loop writes it.
  Progress& progress() { return progress_; }
  const Progress& progress() const { return progress_; }

  /// Begins to bring the figures since the last flush over, as of `step`. Throws Error when the
  /// flush before says that an environment gave a number that is not finite.
  void begin(int64_t step);
  /// The oldest flush that has come and was not taken yet; with `wait`, also one on its way.
  std::optional<MetricRow> next_row(bool wait);
  /// Waits for a flush on its way and completes its row.
  void settle();
  /// Throws Error where an environment gave a number that is not finite since, as begin() would at
  /// the next flush: asked before anything is saved, by all processes. Waits for a device.
  void expect_finite(int64_t step) const;
  /// The step of the last begin().
  int64_t flushed_step() const { return flushed_step_; }
  /// The time since the last flush, or since the beginning, is none of the run's.
  void restart_clocks();

  /// Finished episodes so far, as of the last flush.
  int64_t episodes() const { return episodes_; }
  /// Episodes a mean return is over: kSettledEpisodes, and as many as all processes have
  /// environments. All begin together, and those that end first are the short ones.
  int64_t settled_episodes() const;
  /// Mean return over at least the last settled_episodes() finished episodes, or all where fewer
  /// have finished, as of the last flush; NaN before the first.
  double return_mean() const { return return_mean_; }
  /// The same; NaN before as many have finished.
  double settled_return_mean() const;
  /// The first sign, in a row, that learning has diverged: which figure is not finite; empty: none.
  const std::string& divergence() const { return divergence_; }

  /// Seconds the sessions before this one took until `step`; shown times continue from there. Where
  /// steps since the last row were another session's the first row has no steps a second.
  void continue_clock(double seconds, int64_t step) {
    seconds_before_ = seconds, of_two_sessions_ = step != flushed_step_;
  }
  double seconds() const;

  /// Figures of all processes since the last flush become the first one's, as a checkpoint has them.
  void pool_figures();
  /// What rows of a resumed run depend on, the figures since the last flush among it.
  void visit_state(StateVisitor& visitor);

 private:
  /// Of all processes' replays together.
  struct ReplayHeld {
    int64_t rows = 0, episodes = 0;
  };
  /// As of the flush that has come. Throws Error where one was asked for what it does not hold.
  ReplayHeld replay_held() const;
  /// [1] f32: 0 where an environment of any process gave a number that is not finite.
  at::Tensor finite_flag() const;
  void take_episodes(const EpisodeTotals& totals);
  void look_for_divergence(const std::vector<std::pair<std::string, double>>& figures,
                           const float* sums);

  ReportSources from_;
  Metrics metrics_;
  PhaseTimes times_;
  Progress progress_;

  HostCopy copy_;
  bool open_ = false;   ///< a flush is on its way
  MetricRow open_row_;  ///< what the host knows of it
  std::vector<MetricRow> rows_;
  std::string divergence_;

  int64_t flushed_step_ = 0;
  int64_t episodes_ = 0;
  double return_mean_ = std::numeric_limits<double>::quiet_NaN();
  at::Tensor recent_;  ///< [kRecent, 2] f64: return sums and episodes of the last ones, a ring
  int64_t recent_next_ = 0;
  double seconds_before_ = 0;
  bool of_two_sessions_ = false;  ///< steps since the last flush were timed by two clocks
  double started_s_, flushed_s_;
};

}  // namespace maglev
