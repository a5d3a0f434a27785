#pragma once
// Candidates of an experiment: planned from their settings, measured in processes of their own.

#include <memory>
#include <string>

#include "engine/algo/experiment.h"
#include "verbs/tune/search.h"

namespace maglev::verbs::tune {

class Trials {
 public:
  /// `experiment` as it is loaded, settled or not. A folder for the candidates' settings is made,
  /// and goes with the object. Throws Error.
  explicit Trials(const Experiment& experiment);
  ~Trials();
  Trials(const Trials&) = delete;
  Trials& operator=(const Trials&) = delete;

  /// What a run with the candidate's settings would hold, and whether it fits train.memory_limit.
  Fit plan(const Candidate& candidate) const;
  /// Trains with them in a child (verbs/bench/run_child.h): what crashes, hangs or takes all memory
  /// is that one. Rates follow a schedule that never ends, and nothing is evaluated or saved.
  Sample measure(const Candidate& candidate, double seconds, double limit);

 private:
  std::unique_ptr<Experiment> changed(const Candidate& candidate) const;

  const Experiment& experiment_;
  std::string folder_;
  double speed_ = 0;  // of the last that was measured, steps/s
};

}  // namespace maglev::verbs::tune
