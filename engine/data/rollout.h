#pragma once
// On-policy storage [T+1, rows]: act writes its columns of row t, the environments write theirs of
// rows t and t+1, nothing is copied or stacked. All views are made once, here.

#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/data/batch.h"
#include "engine/env/entry.h"
#include "engine/train/state.h"

namespace maglev {

struct RolloutShape {
  int64_t T = 0;           ///< steps a rollout
  int64_t rows = 0;        ///< environments * agents
  int64_t block_rows = 0;  ///< rows a block of Row::blocks has; the last may be shorter
};

/// Rows a block should have: at most `most`, whole environments of `agents` rows, and fewer where
/// that gives more threads work. A function of sizes alone.
int64_t block_rows(int64_t most, int64_t rows, int64_t agents);

class Rollout {
 public:
  Rollout(const EnvSpec& spec, RolloutShape shape, const std::vector<ExtraColumn>& columns,
          at::Device device);

  const RolloutShape& shape() const { return shape_; }
  Row& row(int64_t t) { return rows_[size_t(t)]; }
  /// Pointers of the environment step that reads row t and writes rows t and t+1.
  const StepIo& io(int64_t t) const { return io_[size_t(t)]; }
  /// Pointers of the very first reset, which writes row 0.
  const StepIo& first_io() const { return first_io_; }
  const Batch& batch() const { return batch_; }

  /// Row T becomes row 0 of the next rollout.
  void roll_over();

  /// Row 0 as the environments left it: all that a next rollout needs.
  void visit_state(StateVisitor& visitor);

 private:
  StepIo make_io(const EnvSpec& spec, int64_t t, int64_t next) const;

  RolloutShape shape_;
  Batch batch_;
  std::vector<Row> rows_;
  std::vector<StepIo> io_;
  StepIo first_io_;
};

}  // namespace maglev
