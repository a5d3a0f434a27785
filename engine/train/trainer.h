#pragma once
// The loop's body and its clocks: collect, learn, report. Knows nothing of files, sinks or signals.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/metrics/sink.h"
#include "engine/algo/algorithm.h"
#include "engine/algo/experiment.h"
#include "engine/data/vec_env.h"
#include "engine/device/host_copy.h"
#include "engine/host/machine.h"
#include "engine/play/league.h"
#include "engine/train/step_graph.h"
#include "engine/train/store.h"

namespace maglev {

/// Where an iteration's time went since it was last taken, seconds.
struct PhaseTimes {
  double environment = 0, policy = 0, learn = 0, copy = 0;
};

class Trainer {
 public:
  /// Builds environments, store and algorithm for `experiment` and begins the first episodes.
  Trainer(const Experiment& experiment, const Placement& placement);

  /// Runs `train.warmup` iterations (before graphs are captured: two at least) for what they leave
  /// behind, such as memory, libraries that set themselves up and the graphs; then puts everything
  /// back exactly. Call it once, after a checkpoint was loaded and before the first iterate().
  void warm_up();
  /// What became of graphs, for people; empty where nothing is to be said, or not yet.
  const std::string& graph_note() const { return graph_note_; }
  /// Whether iterations are replays of captured graphs.
  bool captured() const { return collect_.captured() && update_.captured(); }

  /// One iteration: steps are collected, then the updates made that are due: one from a rollout, as
  /// many as the plan says from a replay. With train.overlap they are those of the iteration before
  /// and run beside. Throws Error when an environment gives a number that is not finite, before it
  /// reaches the algorithm (on CUDA: at the next report); the error names environment, step and
  /// column.
  void iterate();
  /// Asked between updates: where it says so, iterate() returns early. The updates that are left
  /// are the first thing of the next call, also of a run that is resumed; nothing else changes.
  void stop_when(std::function<bool()> stop) { stop_ = std::move(stop); }

  /// Environment steps done, all rows; updates where a dataset is learned from.
  int64_t step() const { return iterations_ * steps_per_iteration(); }
  int64_t steps_per_iteration() const {
    return offline() ? 1 : plan_->collect_steps * envs_->rows();
  }
  int64_t iterations() const { return iterations_; }
  int64_t updates() const { return updates_; }
  bool done() const { return step() >= experiment_->run.steps; }
  /// Counted in iterations alone, so that a resumed run flushes where an unbroken one does.
  bool flush_due() const;
  bool save_due() const;
  /// Mean return over at least the last 100 finished episodes, as of the last flush; NaN before the
  /// first.
  double return_mean() const { return return_mean_; }

  /// Seconds the sessions before this one took; shown times continue from there.
  void continue_clock(double seconds) { seconds_before_ = seconds; }
  double seconds() const;

  /// Begins to bring the figures since the last flush to the host: one asynchronous copy, the only
  /// way a device value gets there. Throws Error when the flush before says that an environment
  /// gave a number that is not finite.
  void begin_flush();
  /// The oldest flush that has come and was not taken yet; with `wait`, also one on its way.
  std::optional<MetricRow> next_row(bool wait);
  /// Both at once.
  MetricRow flush();

  /// Everything a resumed run needs to go on as if nothing happened. Between iterations only.
  void visit_state(StateVisitor& visitor);

  const Experiment& experiment() const { return *experiment_; }
  const Placement& placement() const { return placement_; }
  ThreadPool& pool() { return pool_; }
  Algorithm& algorithm() { return *algo_; }
  VecEnv& envs() { return *envs_; }
  Store& store() { return *store_; }
  Rollout& rollout() { return *store_->rollout(); }
  /// Null where every agent learns.
  const League* league() const { return league_.get(); }
  /// Whether checkpoints leave out a replay that is collected here.
  bool forgets_replay() const {
    return plan_->replay && !offline() && !experiment_->run.save_replay;
  }
  /// How far the run is; readable from any thread.
  const Progress& progress() const { return progress_; }

 private:
  /// What the threads that collect a block keep of it; a cache line of its own.
  struct alignas(64) BlockState {
    Carry carry;         ///< views of the block's rows
    PhaseTimes times;    ///< policy and environment, of this rollout
    bool finite = true;  ///< all the environments gave in this rollout
  };

  // the stages, as they are called or captured
  void collect();
  void learn();
  void publish() { algo_->publish(); }

  bool offline() const { return !experiment_->run.dataset.empty(); }
  /// Those of this iteration, or as many until somebody stops it.
  void make_owed_updates();
  void iterate_in_turn();
  void iterate_overlapped();
  void make_updates(int64_t count);
  /// Everything but the store and the step clocks.
  void visit_learner(StateVisitor& visitor);
  void visit_clocks(StateVisitor& visitor);
  void act(int64_t t, int64_t block);
  void step_block(int64_t t, int64_t block);
  void settle_games(int64_t t);
  /// Throws Error that names the first number of the rollout that is not finite.
  void report_nonfinite();
  void check_on_device();
  void capture_graphs();
  /// Waits for a flush on its way and completes its row.
  void settle();

  const Experiment* experiment_;
  Placement placement_;
  bool overlap_;
  ThreadPool pool_;
  // with train.overlap: the updates' own threads, and the two that run the stages side by side
  std::unique_ptr<ThreadPool> learn_pool_, stages_;
  std::unique_ptr<VecEnv> envs_;
  std::unique_ptr<Algorithm> algo_;
  const DataPlan* plan_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<League> league_;
  std::function<bool()> stop_;
  int64_t owed_ = 0;  ///< updates an iteration that was cut short has left
  Carry carry_;
  std::vector<BlockState> blocks_;
  bool lockstep_;
  Metrics metrics_;
  GraphPool graphs_;
  StepGraph collect_, update_, publish_;
  /// Updates after which graphs are captured; negative: there is nothing to capture any more.
  int64_t capture_after_ = -1;
  std::string graph_note_;
  /// [1] i64 on the device: time steps before this iteration. Undefined where the host counts them.
  at::Tensor steps_before_;
  at::Tensor updates_before_;  ///< likewise updates
  at::Tensor finite_;  ///< [1] f32 on a GPU: 0 once an environment gave a number that is not finite

  HostCopy report_;
  bool report_open_ = false;  ///< a flush is on its way
  MetricRow open_row_;        ///< what the host knows of it
  std::vector<MetricRow> rows_;

  int64_t iterations_ = 0;
  int64_t updates_ = 0;
  int64_t flushed_iterations_ = 0;
  int64_t episodes_ = 0;
  double return_mean_;
  at::Tensor recent_;  ///< [kRecent, 2] f64: return sum and episodes of the last flushes, a ring
  int64_t recent_next_ = 0;
  double seconds_before_ = 0;  ///< of the sessions before this one
  Progress progress_;
  PhaseTimes times_;
  double started_s_, flushed_s_;
};

}  // namespace maglev
