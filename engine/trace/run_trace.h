#pragma once
// The windows of a run: which iterations are recorded, and where they are written. A file is there
// as a whole or not at all, nothing is overwritten, and what cannot be written is said and ends
// nothing. Files are written by a thread of their own while the run goes on.
// Threads: spans by all; everything here by the run's own.

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/core/background.h"
#include "base/trace/file.h"
#include "base/trace/tracer.h"
#include "engine/host/peaks.h"
#include "engine/trace/kineto.h"
#include "engine/trace/options.h"

namespace maglev {

class RunTrace {
 public:
  /// Throws Error where the options, or the environment in their place, are wrong. `with_device`:
  /// the run is on a CUDA device. It outlives all threads of the run. `rank`: of this process among
  /// those that share the run; all but the first record the first one's windows, by its orders.
  RunTrace(const TraceOptions& options, bool with_device, int rank = 0);

  /// Where files go that the options name no folder for, and what they say of the run.
  void attach(const std::string& run_folder, trace::RecordedRun run);

  /// `last`: the iteration that the run ends with at the latest. Windows behind it are said, once.
  void expect(int64_t last);

  /// The window that the last begin_iteration() opened, or that goes on with another number, for
  /// follow() in the other processes of the run; once.
  std::optional<std::string> take_order();
  /// The next iteration that begins is of the window in `order`. Returns its number.
  int64_t follow(const std::string& order);

  /// Around each iteration; `iteration` counts from 1, 0 is the warm-up.
  void begin_iteration(int64_t iteration);
  void end_iteration(int64_t iteration);
  /// The next iterations, as many as trace.length says.
  void ask() { asked_ = true; }
  /// The iteration that runs is written: learning has diverged.
  void diverged() { diverged_ = true; }
  /// The iteration that runs does what is known to take long, a save or an evaluation: it is no
  /// slow one.
  void excuse() { excused_ = true; }
  /// What is open ends, and what is being written is waited for. Also when the run fails.
  void finish();
  /// Lines for people since the last call.
  std::vector<std::string> take_notes();

 private:
  struct Window {
    int64_t first = 0, last = 0;
    std::string reason;
    std::vector<trace::ThreadUse> use = {}, programs = {};  ///< of threads before it
    bool alone = false;  ///< the run's other processes did not record it
  };
  /// Where the window of `path` is, for people: this process's file, and those of the others.
  std::string files_of(const Window& window, const std::string& path) const;
  std::optional<Window> window_at(int64_t iteration);
  std::string order_of(const Window& window, int64_t next) const;
  void open(const Window& window);
  void close(int64_t last);
  void write(const Window& window, bool full);
  void look_for_anomaly(int64_t iteration, double seconds);
  void note(std::string text);

  TraceOptions options_;
  std::vector<IterationRange> ranges_;
  trace::RecordedRun run_;
  trace::CounterSource counters_;
  int rank_;
  std::string folder_, prefix_;
  std::string suffix_;             ///< of names, which tells processes apart
  std::optional<Window> ordered_;  ///< not begun yet
  std::optional<std::string> order_;
  trace::Tracer tracer_;
  std::unique_ptr<Kineto> kineto_;  ///< null: mode lite
  std::optional<Window> open_;
  bool asked_ = false, diverged_ = false, excused_ = false, told_busy_ = false;
  std::vector<double> times_;  ///< seconds of the last iterations, a ring
  int64_t timed_ = 0, anomalies_ = 0, begin_ns_ = 0;
  int64_t last_ = 0;  ///< iteration that ended last
  std::mutex mutex_;  ///< of notes_
  std::vector<std::string> notes_;
  ThreadPeaks peaks_;                   ///< measured by the writer before its first file
  std::unique_ptr<Background> writer_;  ///< ends first
};

}  // namespace maglev
