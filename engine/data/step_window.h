#pragma once
// The T+1 time steps that are being collected, as views and pointers made once: act writes its
// columns of step t, the environments write theirs of steps t and t+1, wherever in a store they
// lie.

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/env/entry.h"
#include "engine/data/batch.h"

namespace maglev {

struct RolloutShape {
  int64_t T = 0;           ///< steps a rollout
  int64_t rows = 0;        ///< environments * agents
  int64_t block_rows = 0;  ///< rows a block of TimeStep::blocks has; the last may be shorter
};

/// Below so many rows a block costs more than it gives another thread to do, unless acting for one
/// takes long.
constexpr int64_t kLeastBlockRows = 64;

/// Rows a block should have: at most `most`, whole environments of `agents` rows, and fewer where
/// that gives more threads work, but not below `least`. A function of sizes alone.
int64_t block_rows(int64_t most, int64_t rows, int64_t agents, int64_t least = kLeastBlockRows);

/// Rows [begin, begin + count) of `step` as views, without its blocks.
TimeStep cut_rows(const TimeStep& step, int64_t begin, int64_t count);

struct ColumnTimes {
  int64_t observed = 0;  ///< of observations, masks, is_first and columns with has_last
  int64_t acted = 0;     ///< of everything else
};

/// Makes the tensor of an observation column.
using MakeColumn = std::function<at::Tensor(at::IntArrayRef sizes, at::TensorOptions)>;

/// Columns [times, rows, ...] for what `spec` shows and takes, and `columns` besides. Masks are 1,
/// observations as `make` makes them where it is given, everything else is 0.
Batch make_columns(const EnvSpec& spec, const std::vector<ExtraColumn>& columns, ColumnTimes times,
                   int64_t rows, at::TensorOptions memory, const MakeColumn& make = {});

class StepWindow {
 public:
  /// Times 0 to T of `columns`, which outlives this.
  StepWindow(const EnvSpec& spec, const Batch& columns, const RolloutShape& shape);

  const RolloutShape& shape() const { return shape_; }
  TimeStep& step(int64_t t) { return steps_[size_t(t)]; }
  const TimeStep& step(int64_t t) const { return steps_[size_t(t)]; }
  /// Rewards [rows] f32 of step t < T.
  const at::Tensor& reward(int64_t t) const { return rewards_[size_t(t)]; }
  /// Whether it ended its episode, or a limit did: [rows] u8.
  const at::Tensor& terminated(int64_t t) const { return terminated_[size_t(t)]; }
  const at::Tensor& truncated(int64_t t) const { return truncated_[size_t(t)]; }
  /// Pointers of the environment step that reads step t and writes steps t and t+1.
  const StepIo& io(int64_t t) const { return io_[size_t(t)]; }
  /// Pointers of the very first reset, which writes step 0.
  const StepIo& first_io() const { return first_io_; }

  /// Step t becomes time (first + t) % slots of the columns, of which each has `slots` times. No
  /// view is made and nothing allocated.
  void move_to(int64_t first, int64_t slots);

 private:
  void point(StepIo& io, int64_t t, int64_t next) const;

  EnvSpec spec_;
  RolloutShape shape_;
  std::vector<TimeStep> steps_;
  std::vector<at::Tensor> rewards_, terminated_, truncated_;
  std::vector<StepIo> io_;
  StepIo first_io_;
};

}  // namespace maglev
