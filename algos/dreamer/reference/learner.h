#pragma once
// One update of Dreamer by ATen and autograd: the reference of every faster path.

#include <string>

#include <ATen/core/Tensor.h>

#include "algos/dreamer/learner.h"
#include "algos/dreamer/numbers.h"
#include "algos/dreamer/reference/loss.h"

namespace maglev::dreamer {

class ReferenceLearner : public Learner {
 public:
  ReferenceLearner(const LearnerOptions& options, LearnerState& state);

  StoredLatents update(const Sequences& batch, at::Tensor& figures) override;

  /// What update number state.updates draws for T steps of B sequences.
  UpdateNoise noise(int64_t T, int64_t B) const;

 private:
  LearnerOptions options_;
  LearnerState* state_;
  ReferenceLoss loss_;
};

}  // namespace maglev::dreamer
