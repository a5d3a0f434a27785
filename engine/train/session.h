#pragma once
// One session of a run: the loop with everything that touches its folder and the people who watch
// it. Checkpoints, metrics, evaluations, signals, and how it ends.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/core/clock.h"
#include "base/metrics/writer.h"
#include "engine/host/cpu_cache.h"
#include "engine/run/checkpoint_store.h"
#include "engine/run/run_dir.h"
#include "engine/trace/run_trace.h"
#include "engine/train/evaluation.h"
#include "engine/train/held_memory.h"
#include "engine/train/monitor.h"
#include "engine/train/signals.h"
#include "engine/train/stall_watch.h"
#include "engine/train/trainer.h"
#include "engine/train/training_run.h"

namespace maglev {

class Session {
 public:
  /// `resumed_at`: the step of the checkpoint the run continues from; -1: a new one. All outlive
  /// it.
  Session(Trainer& trainer, RunDir& dir, const RunRequest& request, RunTrace& trace,
          int64_t resumed_at);

  /// Trains to the run's end, or until somebody or something stops it. Throws Error; what was saved
  /// before stays.
  RunOutcome run();
  /// A line for people: on the console and in log.txt.
  void say(const std::string& text);
  /// One that the run's end and run.json repeat.
  void warn(const std::string& text);

 private:
  MetricWriter open(const RunRequest& request);
  /// Names of the sinks that are opened: those asked for; of a run that goes on those it had
  /// (session_sinks.h).
  std::vector<std::string> sinks_for(const RunRequest& request);
  /// A line in log.txt alone, which is not worth a run where it cannot be written.
  void log(const std::string& text);
  void warm_up();
  /// What became of graphs and updates, where it has not been said.
  void say_notes();
  void loop();
  void iterate();
  /// Tells the other processes of the run of a window that opens, too.
  void begin_traced(int64_t iteration);
  /// As RunTrace counts them: those before this session too.
  int64_t iteration() const { return trainer_.step() / trainer_.steps_per_iteration() + 1; }
  void tell_traces();
  void flush();
  /// Rows that have come from the device; with `wait`, also one on its way.
  void push(bool wait);
  void begin_hooks();
  void watch_for_stalls();
  /// What the run holds by part, once it has learned, beside what was planned: to log.txt and
  /// memory.json.
  void measure_memory();
  HeldMemory held_now(int64_t tensors);
  /// What a run that is out of memory says; the device's blocks go into its folder.
  std::string tell_out_of_memory(const c10::Error& error);
  void tell_episodes();
  /// `must`: it is the run's last, or its first.
  /// `between`: because time has passed; the next one replaces it, and it is never the best, which
  /// would be another one on another machine.
  void save(bool must, bool between = false);
  /// What a checkpoint of this step says of itself.
  CheckpointIdentity identity_now() const;
  /// Returns its folder. What went wrong once it was there is left in `trouble`. Throws Error where
  /// it is not.
  std::string save_checkpoint(const CheckpointIdentity& identity, std::string& trouble);
  /// Who plays against whom, beside it, where anybody does.
  void save_league(std::string& trouble);
  /// Tries again for a while, or until a signal. Throws Error that begins with why it fails.
  void retry_save(const std::string& why, const std::function<void()>& attempt);
  /// Writes run.json, unless the folder has moved.
  void tell_status();
  /// Adds to what run.json says besides the state.
  void remember(const std::string& text);
  void end(const std::string& state, const std::string& message);

  /// Warnings of a run that is done: what it was set to and did not come to.
  void tell_what_never_came();
  /// The folder is made anew where somebody moved or deleted it. Throws Error where it cannot be.
  void look_after_folder();
  void look_for_divergence();
  void look_for_return();
  /// Whether the checkpoint of this step is to be judged.
  bool evaluation_due() const;
  /// Whether the last save is long ago, where train.save_every says nothing.
  bool save_overdue() const;
  /// Hears of the evaluation that runs and begins the next; with `wait`, until none is left.
  void evaluate(bool wait);
  void take_verdict(bool wait);
  /// The run's aim is reached where `mean` is: it ends.
  void reach(double mean, const std::string& what);
  bool over() const { return trainer_.done() || ending_ || SignalGuard::leave(); }
  const RunOptions& options() const { return trainer_.experiment().run; }

  SignalGuard signals_;
  Trainer& trainer_;
  RunDir& dir_;
  RunTrace& trace_;
  int64_t resumed_at_;
  int64_t saved_step_;    ///< of the newest checkpoint
  bool unsaved_ = false;  ///< one has failed since, or has nowhere to go: said
  CheckpointStore store_;
  std::string sinks_note_;  ///< where metrics go, of a run that kept its sinks; set as they open
  MetricWriter writer_;
  MemoryPlan plan_;
  CpuCacheLimit limit_;            ///< of tensor_limit()
  HeldMemory held_;                ///< by part, as it begins and once it has learned
  bool measured_ = false;          ///< the second of these
  std::unique_ptr<GpuMeter> gpu_;  ///< of the run's device; null: none, or nothing of it is known
  Monitor monitor_;
  std::unique_ptr<Evaluation> evaluation_;  ///< null: train.eval_every is 0
  std::vector<std::string> unjudged_;       ///< checkpoints to be judged, oldest first
  RunStatus status_;
  double told_s_ = 0;            ///< by steady_s(), when run.json was written last
  double saved_s_ = steady_s();  ///< when a save was tried last
  double save_took_s_ = 0;
  std::string between_;         ///< the last checkpoint, where it was saved because time had passed
  std::string status_trouble_;  ///< why it could not be, as it was last said
  Hooks hooks_;
  std::optional<EpisodeLog> episodes_;       ///< where a hook asks for them
  int64_t told_step_ = 0;                    ///< episodes until then were told
  std::string graph_note_, algorithm_note_;  ///< as they were last said
  bool warned_ = false, ending_ = false, reached_ = false;
  RunOutcome outcome_ = RunOutcome::stopped;  ///< where it ends before its steps are done
  std::optional<StallWatch> stall_;           ///< while it runs; ends first
};

}  // namespace maglev
