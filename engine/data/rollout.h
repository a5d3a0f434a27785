#pragma once
// On-policy storage [T+1, rows]: act writes its columns of row t, the environments write theirs of
// rows t and t+1, nothing is copied or stacked. All views are made once, here.

#include <vector>

#include "engine/data/state.h"
#include "engine/data/step_window.h"

namespace maglev {

class Rollout {
 public:
  /// `observations`: makes their columns; empty: zeros on the device.
  Rollout(const EnvSpec& spec, RolloutShape shape, const std::vector<ExtraColumn>& columns,
          at::Device device, const MakeColumn& observations = {});

  /// Bytes of one row in each column of the observations; of all columns, rows and steps.
  static std::vector<int64_t> observed_columns(const EnvSpec& spec);
  static int64_t observed_bytes(const EnvSpec& spec, const RolloutShape& shape);

  const RolloutShape& shape() const { return window_.shape(); }
  StepWindow& window() { return window_; }
  TimeStep& step(int64_t t) { return window_.step(t); }
  /// Pointers of the environment step that reads row t and writes rows t and t+1.
  const StepIo& io(int64_t t) { return window_.io(t); }
  /// Pointers of the very first reset, which writes row 0.
  const StepIo& first_io() const { return window_.first_io(); }
  const Batch& batch() const { return batch_; }

  /// Time step T becomes step 0 of the next rollout.
  void roll_over();

  /// Time step 0 as the environments left it: all that a next rollout needs.
  void visit_state(StateVisitor& visitor);

 private:
  Batch batch_;
  StepWindow window_;
};

}  // namespace maglev
