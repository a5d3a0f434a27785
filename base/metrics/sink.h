#pragma once
// Where metrics go. A row leaves the iteration once per flush, on a writer thread; sinks never run
// beside training code.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/config/options.h"

namespace maglev {

/// Finished episodes from which on a mean return is no luck: best figures and checkpoints wait for
/// as many, and for as many as there are environments.
constexpr int64_t kSettledEpisodes = 100;

/// One flush, or an event such as an evaluation. `values` keeps the order in which names were
/// registered; absent figures (no episode ended) are NaN.
struct MetricRow {
  int64_t step = 0;             ///< environment steps so far, all environments
  double seconds = 0;           ///< since the run began, over resumes, without warm-ups
  double steps_per_second = 0;  ///< over this flush's interval
  int64_t episodes = 0;         ///< finished so far
  /// Over at least the last RunInfo::settled_episodes finished episodes, or as many as there are;
  /// NaN before the first.
  double return_mean = 0;
  std::vector<std::pair<std::string, double>>
      values;  ///< e.g. "loss/policy", "time/environment", "events/food_per_1k"
  /// Something besides the loop happened, e.g. an evaluation of this step ended: step, seconds and
  /// values are all there is, and rows of later steps may have come before.
  bool event = false;
  /// What bounds the run now and what to try, for people; empty: nothing is said by this row.
  std::string bound_by = {};
};

/// A row of an earlier session, as much as a display wants of it.
struct PastRow {
  int64_t step = 0;
  int64_t episodes = 0;
  double return_mean = 0;
};

/// What a sink is told when a run begins.
struct RunInfo {
  std::string dir;  ///< the run folder, exists
  std::string algo, env, device;
  int64_t total_steps = 0;
  int64_t seeding_steps = 0;                    ///< collected before anything is learned
  int64_t settled_episodes = kSettledEpisodes;  ///< that a mean return is over
  int64_t resumed_at =
      -1;  ///< step of the checkpoint it continues from; -1: a new run. Later rows are dropped.
  bool plays = true;  ///< else it learns from a dataset: no episode begins or ends
  bool quiet = false;
  std::string options_yaml;   ///< the resolved settings
  std::vector<PastRow> past;  ///< of the sessions before, up to `resumed_at`, in order
};

/// How far the running iteration is. Written by training as it goes (relaxed stores), read by the
/// writer thread.
struct Progress {
  std::atomic<int64_t> step{0};  ///< environment steps of finished iterations, all environments
  std::atomic<int64_t> iteration_step{0};  ///< environment steps collected since, all environments
  /// Steps an iteration collects before it learns, constant; 0: how far it is is not known, for a
  /// device collects by itself.
  int64_t iteration_steps = 0;
  std::atomic<int64_t> updates_left{0};  ///< that the iteration has yet to make
  int64_t total_steps = 0;               ///< of the whole run; constant
  int64_t seeding_steps = 0;             ///< collected before anything is learned; constant
  std::atomic<bool> warming{false};      ///< what is made now will be undone
  std::atomic<double> iteration_s{0};    ///< of the last iteration, with its save; 0: none
  /// Whether somebody asked the run to end, which it does behind its iteration; constant.
  bool (*leaving)() = [] { return false; };
};

class MetricSink {
 public:
  virtual ~MetricSink() = default;
  virtual void write(const MetricRow& row) = 0;
  /// Called about five times a second on the writer thread between rows, so that long iterations
  /// still show life.
  virtual void tick(const Progress&) {}
  /// Whether people see what is noted while the run goes on.
  virtual bool shows() const { return false; }
  /// A line for people: a checkpoint was saved, a warning.
  virtual void note(const std::string&) {}
  /// A note that must not be missed: repeated where the run's end is told.
  virtual void warn(const std::string& text) { note(text); }
  /// Why the run ends before its steps are done, where it does so of itself: told with its end too.
  virtual void ends_early(const std::string& why) { note(why); }
  /// What was written so far survives a power cut when this returns.
  virtual void sync() {}
  /// The run ended: flush and close. `outcome` is "finished", "stopped" or an error.
  virtual void close(const std::string& outcome) { (void)outcome; }
};

struct SinkEntry {
  const char* name;
  const char* summary;
  bool on_by_default;
  std::unique_ptr<MetricSink> (*open)(const RunInfo&);
  /// Whether open() may be called again in a run, with `resumed_at` the last step it was given:
  /// true of what writes files.
  bool reopens = true;
  /// Reads back the rows that sessions of the run in `dir` wrote, in order: those with a return, up
  /// to what a killed process left torn. Null: it cannot. The table's tests read by it.
  void (*read_back)(const std::string& dir,
                    const std::function<void(const PastRow&)>& row) = nullptr;
};

/// Every sink that was built in, by name. --sinks chooses among them.
std::span<const SinkEntry> sink_table();

}  // namespace maglev
