#pragma once
// Off-policy storage: a ring of time steps, time-major [slots, rows, ...] a column. act and the
// environments write slots t and t+1 themselves; slices of L transitions are drawn from episodes
// through a table (kernels/replay/episodes.h), so a draw costs the same at any size.
//
// Every address has the environment's row in it, and each slice is checked: it lies in one episode
// of one row. On CUDA steps are collected at fixed addresses first, so that a graph can be
// captured, and one kernel puts them into the ring at a counter on the device.
//
// Threads (CPU): one writer; any number of samplers, each with a buffer of its own, also while the
// writer collects. They wait for each other only within begin(), commit(), sample() and, where it
// changes priorities, put_back().

#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/thread_pool.h"
#include "engine/data/rollout.h"
#include "kernels/replay/replay_op.h"

namespace maglev {

struct ReplayShape {
  RolloutShape window = {};  ///< steps collected together, rows, blocks
  int64_t capacity = 0;      ///< rows kept, of all environments together
  int64_t length = 1;        ///< L, transitions of a slice
  int64_t batch = 1;         ///< B
  bool by_start = false;     ///< every start alike; else an episode, then a start in it
  bool running = false;      ///< running episodes count too
  bool crossing = false;     ///< slices cross the ends of episodes, every start alike
  /// Each start as often as its priority to this power says, in [0, 4]; running episodes count too.
  std::optional<double> priorities = {};
};

/// Where a ring lies, if not simply on its device.
struct RingMemory {
  bool pinned = false;  ///< in host memory that a CUDA device reads
  /// Observations in a file of this folder that is mapped into memory and gone with the ring: for
  /// one larger than memory. CPU only; empty: in memory.
  std::string folder = {};
};

/// Which batch: its slices are a function of these and of what the ring holds.
struct ReplayKey {
  uint64_t seed = 0;
  int64_t number = 0;             ///< less `*base`
  const int64_t* base = nullptr;  ///< added where not null; on the replay's device
};

/// A sampler's own: sequences [L or L+1, B, ...] at fixed addresses.
struct ReplayBuffer {
  Batch batch;
  at::Tensor slices;  ///< [B, 2] i64: time of the first row, and which row
  at::Tensor number;  ///< [1] i64, on CUDA: which batch it is; negative: none
};

/// Which columns of a batch are gathered: those that updates write back (`rewritten`), those that
/// stay as they were collected, or all.
enum class SampledColumns { all, kept, rewritten };

class Replay {
 public:
  /// Throws Error when the capacity holds less than a slice and the steps that are collected
  /// meanwhile, or the folder's disk has less than the ring takes.
  Replay(const EnvSpec& spec, const ReplayShape& shape, const std::vector<ExtraColumn>& columns,
         at::Device device, const RingMemory& memory = {});

  const ReplayShape& shape() const { return shape_; }
  int64_t slots() const { return slots_; }
  at::Device device() const { return device_; }
  /// Whether the ring lies in host memory that the device reads.
  bool pinned() const { return pinned_; }
  /// The rows to be collected; row 0 is the newest observation.
  StepWindow& window() { return staging_ ? staging_->window() : *window_; }
  /// What was collected, where it is staged: on CUDA.
  const Batch& collected() { return staging_ ? staging_->batch() : columns_; }
  /// Before T steps are collected: what they overwrite is not given any more.
  void begin();
  /// The T steps are there: their episodes may be drawn.
  void commit();

  /// Whether anything can be drawn. On CUDA this waits for the device.
  bool drawable() const;
  /// What is thrown where nothing can.
  Error undrawable() const;
  EpisodeCounters counters() const;
  at::Tensor counters_on_device() const { return index_.counters_on_device(); }
  ReplayBuffer make_buffer() const;
  /// Fills `buffer`, or some columns of it; the slices of a key are the same for all of them.
  /// Throws Error where nothing can be drawn; on CUDA that counts as a fault. `ahead`, on CUDA: a
  /// buffer that may hold this batch's `kept` columns, as of the same table; where its number says
  /// so they are taken from there.
  void sample(ReplayBuffer& buffer, const ReplayKey& key, ThreadPool& pool,
              SampledColumns which = SampledColumns::all, const ReplayBuffer* ahead = nullptr);
  /// Columns that are `rewritten` go back to where sample() had them from, rows [first, L) of each
  /// slice, unless the ring has given these up meanwhile. Those that `buffer` lacks stay. Where
  /// there are priorities, `buffer`'s are those of its slices' starts from now on; [l, B] of them are
  /// of the starts behind those as well.
  void put_back(const ReplayBuffer& buffer, int64_t first = 1);

  /// All that is held: times and the filled part of the ring. Saves what it loads exactly.
  void visit_state(StateVisitor& visitor);
  /// Only what `steps` more steps and the updates between them will overwrite.
  void visit_ahead(StateVisitor& visitor, int64_t steps);
  /// Only what updates write back, of all that is held.
  void visit_rewritten(StateVisitor& visitor);
  /// The same of a checkpoint of `processes` that each held all rows, as this one does: what
  /// process `of` of them wrote is taken. A visitor that loads nothing sees names and shapes alone.
  void visit_rewritten_of(StateVisitor& visitor, int64_t processes, int64_t of);
  /// Nothing before the newest row is given any more.
  void forget();

  /// The ring's columns [slots, rows, ...] and which of their times are held, for who fills or
  /// reads it as a whole.
  Batch& columns() { return columns_; }
  void hold(int64_t oldest, int64_t now) { hold(oldest, now, /*largest=*/0); }
  /// Rows that a slice and the steps collected meanwhile take, whatever the capacity.
  static int64_t least_capacity(const ReplayShape& shape);
  /// Throws Error where `shape` has fewer; says so of all of `shares` alike.
  static void expect_capacity(const ReplayShape& shape, int64_t shares = 1);
  /// Bytes of one row of one environment in each column.
  static std::vector<int64_t> column_bytes(const EnvSpec& spec,
                                           const std::vector<ExtraColumn>& columns);
  /// In all of them.
  static int64_t row_bytes(const EnvSpec& spec, const std::vector<ExtraColumn>& columns);
  /// Bytes of one row in the columns that updates write back.
  static int64_t rewritten_bytes(const std::vector<ExtraColumn>& columns);
  /// Rows of the ring: its slots, of all environments.
  static int64_t ring_rows(const ReplayShape& shape);
  /// Bytes of the ring's observations.
  static int64_t observed_bytes(const EnvSpec& spec, const ReplayShape& shape);
  /// Bytes of the ring and its table. Throws Error where they are too many to count.
  static int64_t bytes(const EnvSpec& spec, const ReplayShape& shape,
                       const std::vector<ExtraColumn>& columns);

 private:
  /// `largest`: as EpisodeIndex::rebuild has it.
  void hold(int64_t oldest, int64_t now, int64_t largest);
  /// Whether updates write back this column of the ring.
  bool rewritten(const at::Tensor& column) const;
  /// Calls visit(name, column) for each of those, the weights of priorities among them.
  template <class Visit>
  void for_rewritten(const Visit& visit) const;
  void visit_counters(StateVisitor& visitor, EpisodeCounters& c);
  /// The largest weight so far: visit("largest", column, dim of its rows).
  template <class Visit>
  void visit_largest(bool loads, EpisodeCounters& c, const Visit& visit) const;
  /// What updates write, of all that is held: visit(name, column, dim of its rows).
  template <class Visit>
  void visit_held_rewritten(bool loads, const Visit& visit);
  /// Throws Error when one of the first `times` of the ring holds a category that there is not, a
  /// flag that is none or a weight below 0.
  void check_values(int64_t times) const;
  /// Visits times [first, first + count) of every column, or of the rewritten ones alone.
  void visit_times(StateVisitor& visitor, int64_t first, int64_t count, bool all = true);
  /// The collected steps go from the staging rollout into the ring.
  void store();
  /// The newest row between the staging rollout and the ring.
  void exchange_newest(int64_t now, bool into_ring);

  EnvSpec spec_;
  std::vector<ExtraColumn> extra_;
  ReplayShape shape_;
  int64_t slots_;
  at::Device device_;
  bool pinned_;
  Batch columns_;
  std::unique_ptr<Rollout> staging_;    ///< CUDA
  std::unique_ptr<StepWindow> window_;  ///< CPU: over the ring itself
  EpisodeIndex index_;
  mutable std::shared_mutex mutex_;  ///< of the table
};

}  // namespace maglev
