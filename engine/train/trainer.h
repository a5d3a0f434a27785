#pragma once
// The loop's body: collect, learn, warm-up, capture. Knows nothing of files, sinks or signals.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/algo/algorithm.h"
#include "engine/algo/experiment.h"
#include "engine/data/all_rows.h"
#include "engine/data/vec_env.h"
#include "engine/device/launch.h"
#include "engine/device/step_graph.h"
#include "engine/host/machine.h"
#include "engine/play/league.h"
#include "engine/train/action_shares.h"
#include "engine/train/finite_check.h"
#include "engine/train/report.h"
#include "engine/train/stage_times.h"
#include "engine/train/store.h"

namespace maglev {

class RunTrace;

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
  bool captured() const {
    return (by_turns_ ? end_collect_ : collect_).captured() && update_.captured();
  }

  /// One iteration: steps are collected, then the updates made that are due: one from a rollout, as
  /// many as the plan says from a replay. With train.overlap they are those of the iteration before
  /// and run beside. Throws Error when an environment gives a number that is not finite, before it
  /// reaches the algorithm (on CUDA: at the next report); the error names environment, step and
  /// column.
  void iterate();
  /// Asked between updates: where it says so, iterate() returns early. The updates that are left
  /// are the first thing of the next call, also of a run that is resumed; nothing else changes.
  void stop_when(std::function<bool()> stop) { stop_ = std::move(stop); }

  /// The updates that are left count as made: for who measures what later iterations take.
  void forgive_updates();

  /// Environment steps done, all rows; updates where a dataset is learned from. Counted as such, so
  /// that a resumed run may collect more or fewer at once.
  int64_t step() const { return steps_; }
  int64_t steps_per_iteration() const {
    return offline() ? 1 : plan_->collect_steps * rows_of_all();
  }
  int64_t updates() const { return updates_; }
  bool done() const { return steps_ >= experiment_->run.steps; }
  /// Whether a multiple of `every` steps was reached in the last iteration. Counted in steps alone,
  /// so that it is so for a resumed run where it is for an unbroken one.
  bool passed(int64_t every) const {
    return steps_ / every != (steps_ - steps_per_iteration()) / every;
  }
  bool flush_due() const;
  bool save_due() const;
  /// Environment steps between checkpoints: train.save_every, or ten a run.
  int64_t save_interval() const;

  /// What of the run reaches the host: rows, clocks, progress.
  Report& report() { return report_; }
  const Report& report() const { return report_; }
  void begin_flush();
  /// Everything since the last flush, waited for.
  MetricRow flush();

  /// Throws Error where an environment gave a number that is not finite since the last flush, or
  /// processes that share the run have come to have other networks: asked before anything is saved.
  /// Waits for a device.
  void expect_sound();

  /// Everything a resumed run needs to go on as if nothing happened. Between iterations only. Where
  /// several processes share the run, all of them visit it at once, as when they load: one that does
  /// so alone waits for ever.
  void visit_state(StateVisitor& visitor);
  /// The same for a visitor in the first process alone: it makes the others take part, also where
  /// it asks for pieces of rows later, until the next call.
  void save_state(StateVisitor& visitor);

  /// In the further processes of a run: does what its first process does, until that says it ends,
  /// and records in `trace` what that records.
  void follow(RunTrace& trace);
  /// In the first: the others record the window of RunTrace::take_order(), whose first iteration is
  /// the next.
  void trace_others(const std::string& order);
  /// They end the window that is open, and write it beside what the first does.
  void end_traces();
  /// In the first: the others' follow() returns.
  void end();

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

 private:
  void expect_alike();
  /// What the threads that collect a block keep of it; a cache line of its own.
  struct alignas(64) BlockState {
    Carry carry;        ///< views of the block's rows
    double policy = 0;  ///< seconds of this rollout
  };
  /// Rows that one thread steps: those of a block, or of one environment where a library steps it,
  /// which takes longer than handing it over.
  struct alignas(64) StepPart {
    int64_t first, rows;
    double environment = 0;  ///< seconds of this rollout
    bool finite = true;      ///< all the environments gave in this rollout
  };

  // the stages of the constructor, in their order
  /// What updates beside steps take: threads of their own, or a stream.
  void make_overlap();
  void make_envs();
  /// Throws Error where its plan contradicts the run's settings.
  void make_algorithm();
  /// Where steps go, and which rows of them a thread acts for and steps.
  void make_rows();
  /// Whether blocks are collected one by one or all of a time step together.
  void choose_order();
  void make_clocks();
  void begin_episodes();
  void begin_report();

  /// The other processes of the run, where this is the first of several, do the same.
  void tell(const std::string& order);
  void iterate_here();
  void visit_shared(StateVisitor& visitor, const AllRows::BeforeGet& before_get);
  void visit_all(StateVisitor& visitor);

  // the stages, as they are called or captured
  void collect();
  void collect_ahead();
  void learn();
  void publish() { algo_->publish(); }

  bool offline() const { return !experiment_->run.dataset.empty(); }
  /// One agent of each environment learns, others are the league's.
  bool meets_opponents() const { return !experiment_->run.opponents.empty(); }
  /// A library steps environments on the host, each of them longer than it takes to hand it over.
  bool steps_one_by_one() const {
    return experiment_->env().at_once == 1 && !placement_.device.is_cuda();
  }
  /// Processes of the environments' own take their steps, which the host only waits for; or beside a
  /// device the host's threads do, in two blocks.
  bool steps_elsewhere() const {
    return placement_.device.is_cuda() ? blocks_.size() > 1
                                       : experiment_->env().begin_cpu != nullptr;
  }
  ThreadPool& learners_pool() { return learn_pool_ ? *learn_pool_ : pool_; }
  /// Those of this iteration, or as many until somebody stops it.
  void make_owed_updates();
  /// What the updates of an iteration have learned acts from here on, and may be a past self.
  void publish_learned();
  void iterate_in_turn();
  void iterate_overlapped();
  void iterate_in_order();
  /// `more` follow them before any further step.
  void make_updates(int64_t count, int64_t more = 0);
  /// Everything but the store and the step clocks.
  void visit_learner(StateVisitor& visitor);
  void visit_clocks(StateVisitor& visitor);
  /// Where time step t is the one that a device's times are divided by.
  void mark(int64_t t, int place);
  void act(int64_t t, int64_t block);
  /// Likewise, as a graph where it is one.
  void act_in_turn(int64_t t, int64_t block);
  StepIo io(int64_t t);
  /// Has the step begin that step_part waits for.
  void begin_part(int64_t t, int64_t part);
  void step_part(int64_t t, int64_t part);
  void act_all(int64_t t);
  void step_all(int64_t t);
  /// All of collect that is not of a time step.
  void end_collect();
  /// The collected steps are counted, and given to who learns from them.
  void keep_collected();
  // in trainer_graphs.cpp
  void capture_graphs();
  /// Whether every process of the run says so. All of them ask.
  bool all_say(bool mine);
  /// Whether the first process was told to stop: all know it then.
  bool stopped();
  /// Updates that are due, in all processes.
  int64_t due();
  void capture_collect();
  /// Updates, and those that draw the next one's batch meanwhile: why these could not be captured,
  /// for a line; empty: they were, or there is nothing to draw ahead.
  std::string capture_updates();
  void forget_graphs();
  void show_progress();
  /// Time steps before this iteration.
  int64_t time_steps() const { return offline() ? 0 : steps_ / rows_of_all(); }
  int64_t rows_of_all() const { return envs_->rows() * placement_.processes; }

  const Experiment* experiment_;
  Placement placement_;
  DependentLaunch dependent_;
  bool overlap_;
  ThreadPool pool_;
  // with train.overlap on a processor: the updates' own threads, and the two that run the stages
  // side by side
  std::unique_ptr<ThreadPool> learn_pool_, stages_;
  std::unique_ptr<VecEnv> envs_;
  std::unique_ptr<Algorithm> algo_;
  const DataPlan* plan_ = nullptr;
  std::unique_ptr<Store> store_;
  std::unique_ptr<League> league_;
  std::function<bool()> stop_;
  int64_t owed_ = 0;      ///< updates an iteration that was cut short has left
  bool another_ = false;  ///< update follows the one being made, before any further step
  Carry carry_;
  std::vector<BlockState> blocks_;
  std::vector<StepPart> parts_;  ///< as blocks_, unless environments are host-only
  bool lockstep_ = false;
  /// Graphs are of a time step's act and step each, for the host is between.
  bool by_turns_ = false;
  std::unique_ptr<FiniteCheck> finite_;
  ActionShares shares_;
  std::unique_ptr<DeviceTimes> stage_times_;  ///< null on a processor
  Report report_;
  GraphPool graphs_;
  /// With train.overlap on a GPU: a stream beside the steps', on which updates are made and
  /// captured. Memory of its own, for graphs that share some may not run at once.
  std::unique_ptr<GraphPool> beside_;
  /// A time step of blocks in lockstep, or of those that a device acts for in turn. Where the host
  /// chooses who plays against the learner, or steps the environments, each of the two is a graph
  /// and collect is none.
  struct Turn {
    std::vector<StepGraph> act;  ///< of all blocks, or of each that is acted for in turn
    StepGraph step{"step", "env_step"};
  };
  StepGraph collect_{"collect", "act,env_step"}, end_collect_{"end of collect", "collect"};
  /// With train.overlap: behind the updates.
  StepGraph keep_{"keep what was collected", "collect"};
  std::vector<Turn> turns_;
  StepGraph update_{"learn", "advantages,minibatch,optimiser"}, publish_{"publish", "update"};
  /// An update that draws the next one's batch meanwhile; where the store does so.
  StepGraph update_ahead_{"learn and draw ahead", "advantages,minibatch,optimiser"};
  /// Updates after which graphs are captured; negative: there is nothing to capture any more.
  int64_t capture_after_ = -1;
  std::string graph_note_;
  /// [1] i64 on the device: time steps before this iteration. Undefined where the host counts them.
  at::Tensor steps_before_;
  at::Tensor updates_before_;  ///< likewise updates

  int64_t steps_ = 0;
  int64_t updates_ = 0;
};

}  // namespace maglev
