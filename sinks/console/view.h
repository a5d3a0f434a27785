#pragma once
// What people are told of a run, gathered from rows and ticks. Plain data: drawing it is draw.h's
// work.

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/metrics/sink.h"

namespace maglev::sinks::console {

struct View {
  std::string algo, env, device, dir;
  int64_t total_steps = 0;
  int64_t resumed_at = -1;
  bool plays = true;

  int64_t step = 0;          ///< as of the last row or tick
  double elapsed_s = 0;      ///< since the run began, over resumes
  double steps_per_second;   ///< smoothed over about ten seconds; NaN before the first figure
  MetricRow row;             ///< the last one, see settle()
  int64_t rows = 0;          ///< seen so far
  int64_t settled_episodes;  ///< that a mean return is over
  double best_return;        ///< highest mean return of a row, over resumes; NaN before as many
  int64_t best_step = 0;
  std::vector<double> history;  ///< mean returns, evenly spaced, at most kHistory of them
  double evaluated;             ///< mean return of the last evaluation; NaN: none has ended
  int64_t evaluated_step = 0;
  double best_evaluated;      ///< the highest so far
  std::string bound_by = {};  ///< what bounds the run, as it was told last
  /// Likewise what its GPU does, by what stands behind "machine/gpu_"; empty: nothing is known.
  std::map<std::string, double> gpu = {};
  std::vector<std::string> warnings = {};  ///< what must not be missed
  std::string ended_by = {};               ///< why the run ended before its steps were done

  /// Steps that are collected before anything is learned, and whether that is still so: their rate
  /// says nothing of the rest.
  int64_t seeding_steps = 0;
  bool seeding() const { return step < seeding_steps; }

  /// The running iteration: share collected in [0, 1]; 1 while it learns. Unknown until a tick.
  bool ticked = false;
  double iteration_share = 0;
  double iteration_s = 0;    ///< what an iteration takes at the present rate, seconds
  int64_t updates_left = 0;  ///< that it has yet to make
  bool saved = true;         ///< there is a checkpoint to evaluate and to go on from
  int64_t beats = 0;         ///< ticks and rows, for the sign of life

  /// `now_s`: any steady clock.
  View(const RunInfo& run, double now_s);
  void apply(const MetricRow& row, double now_s);
  void apply(const Progress& progress, double now_s);

  /// Seconds between the last row, or the beginning, and the last tick.
  double since_row_s() const { return elapsed_s - row.seconds; }
  /// Share of the run that is done, in [0, 1].
  double share() const;
  /// Seconds left at the present rate; NaN when unknown, as before the first update.
  double left_s() const;
  /// A figure of the last row; NaN when it has none.
  double figure(const std::string& name) const;
  /// Of events: over the steps since line_told(), or what was told then where there are none since.
  double since_line(const std::string& name) const;
  /// A line has told what there is.
  void line_told();

 private:
  void remember(const PastRow& past);
  void look_at_gpu(const MetricRow& next);
  /// A row of few steps may have no update, no finished episode and next to no events: what it lacks
  /// is taken from the row before, events are those of about ten seconds.
  void settle(MetricRow& next, double interval_s);

  double began_s_, row_at_s_;
  int64_t began_step_;
  struct Counted {
    double rate = 0, steps = 0;           ///< older steps count ever less
    double line_sum = 0, line_steps = 0;  ///< since a line told of them
    double told = std::numeric_limits<double>::quiet_NaN();
  };
  std::map<std::string, Counted> counted_;  ///< events of each name
  double recent_steps_ = 0, recent_s_ = 0;  ///< what the rate is of, older ones ever less
  bool rate_of_seeding_ = false;  ///< the last row's interval began before anything was learned
  std::map<std::string, int64_t> told_at_;  ///< the step at which a figure was a number last
  int64_t history_stride_ = 1, history_pending_ = 0;
  double history_sum_ = 0;
};

constexpr size_t kHistory = 512;

}  // namespace maglev::sinks::console
