#pragma once
// A piece of an update on a processor, to see how long its rows take: small products one after
// another, of which nobody knows beforehand what share of the peak they reach.

#include <memory>

#include "algos/dreamer/fused/learner.h"

namespace maglev::dreamer {

class TriedUpdate {
 public:
  /// The options' update, but of `steps` steps of each sequence.
  TriedUpdate(const Options& options, int64_t steps, const AlgoContext& context);

  /// Gradients of sequences of zeros, on this thread; the first call makes the networks.
  void run();

 private:
  /// Made together, and gone together.
  struct Made {
    Made(const Options& options, const AlgoContext& context);
    ThreadPool alone;
    LearnerState state;
    FusedLearner learner;
    Sequences batch;
  };
  Options options_;
  AlgoContext context_;
  std::unique_ptr<Made> made_;
};

}  // namespace maglev::dreamer
