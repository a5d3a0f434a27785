#pragma once
// train.precision=auto: which precision an experiment's iterations are fastest in, by running some.

#include <vector>

#include "engine/algo/experiment.h"
#include "engine/host/machine.h"

namespace maglev {

class Trainer;

/// Runs a trainer that has not begun until its iterations are those of most of a run: behind what
/// an algorithm collects before it learns, with updates made and what can be captured captured.
/// What is owed at once then counts as made.
void reach_steady(Trainer& trainer);

/// How long an iteration takes in a precision.
struct PrecisionTime {
  Precision precision;
  double seconds;
};
/// The fastest of `times`, at least one, the most exact first: a later one takes an earlier one's
/// place only where it is more than 1.1 times as fast.
Precision fastest_of(const std::vector<PrecisionTime>& times);

/// The one of `candidates` (fp32 first) that two warm iterations take the least time in, as
/// fastest_of. Those the algorithm does not offer are left out. Iterations are measured with their
/// updates. `why` says the times.
Precision fastest_precision(const Experiment& experiment, const Placement& placement,
                            const std::vector<Precision>& candidates, std::string& why);

/// `placement` for a run of `experiment`: where its precision is "auto" and a GPU does the work,
/// the fastest; written into the experiment's settings, so that a resumed run does not measure
/// again.
Placement settle_precision(Experiment& experiment, Placement placement);

}  // namespace maglev
