#pragma once
// Where an iteration's steps go and what its updates learn from: the rollout that was just
// collected, sequences out of a replay, or sequences of a dataset without any steps.

#include <memory>
#include <string>
#include <vector>

#include "engine/algo/algorithm.h"
#include "engine/algo/experiment.h"
#include "engine/data/replay.h"
#include "engine/host/machine.h"

namespace maglev {

class Store {
 public:
  virtual ~Store() = default;

  virtual StepWindow& window() = 0;
  /// The collected steps as one batch. CUDA only.
  virtual const Batch& collected() = 0;
  /// Around the T steps of an iteration. commit() may be captured; begin() does nothing on CUDA.
  virtual void begin() {}
  virtual void commit() {}
  /// Updates to make now that `steps` steps are done and `made` updates were.
  virtual int64_t due(int64_t steps, int64_t made) = 0;
  /// What update `key` learns from; valid until learned().
  virtual const Batch& batch(const ReplayKey& key, ThreadPool& pool) = 0;
  /// Whether draw_ahead() does anything.
  virtual bool draws_ahead() const { return false; }
  /// Batch `key` will be asked for next, before anything but updates: it may be drawn meanwhile.
  virtual void draw_ahead(const ReplayKey&) {}
  virtual void learned() {}

  /// What a checkpoint holds of it, under the name of its kind.
  virtual void visit_state(StateVisitor& visitor) = 0;
  /// What `steps` more steps change of it.
  virtual void visit_ahead(StateVisitor& visitor, int64_t steps) = 0;

  virtual Rollout* rollout() { return nullptr; }
  virtual Replay* replay() { return nullptr; }
};

/// Updates that `plan` wants once `steps` steps were made: none before first_steps, first_updates
/// then, and updates_per_step for each step after, counted every update_every steps. A function of
/// the step count alone.
int64_t updates_due(const ReplayPlan& plan, int64_t steps);

/// What `plan` and train.replay_capacity ask for, of one of train.processes; where the latter says
/// nothing, no more rows than the run makes. Throws Error where they hold no sequence.
ReplayShape replay_shape(const RunOptions& run, const ReplayPlan& plan, const RolloutShape& window);

/// Where a ring of `bytes` lies: in a file of train.replay_folder; on a GPU in the host's pinned
/// memory as train.replay_memory says, auto: where it would take more than 40 % of the device's
/// free memory. Throws Error for a folder on a GPU.
RingMemory ring_memory(const RunOptions& run, int64_t bytes, const Placement& placement);

/// Whether a rollout's observations lie in the host's pinned memory: on a GPU, as
/// train.rollout_memory says.
bool rollout_is_pinned(const RunOptions& run, at::Device device);

/// Whether batches of `bytes` are drawn ahead, by a thread or on a stream of their own: as
/// train.prefetch says; auto: where they are large and there are threads to share the work, or a
/// GPU reads them out of a ring in pinned memory.
/// `updates`: of an iteration, for the first one's batch is never drawn ahead. Never where there are
/// priorities: an update says which slices the next one has.
bool prefetches(const RunOptions& run, const ReplayPlan& plan, int64_t bytes, bool pinned,
                double updates, const Placement& placement);
/// Updates that `plan` wants for the steps of a window of each of train.processes.
double updates_of(const RunOptions& run, const ReplayPlan& plan, const RolloutShape& window);

/// The store `plan` asks for; of train.dataset where that is set. Throws Error on settings that
/// contradict the plan.
std::unique_ptr<Store> make_store(const RunOptions& run, const EnvSpec& spec, const DataPlan& plan,
                                  const RolloutShape& window, const Placement& placement);

}  // namespace maglev
