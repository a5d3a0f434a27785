#pragma once
// Settings of ours that mend what a finding names, from what the run has: never what is set
// already, what its algorithm has no setting for, or more threads than there are processors.

#include <array>
#include <string>

namespace maglev {

struct TraceOrigin;

enum class Remedy {
  none,
  more_threads,      ///< all processors, and environments enough for them
  more_workers,      ///< environments' own processes, as many as processors
  fewer_threads,     ///< as many as there are processors
  prefetch,          ///< batches ahead of time
  graph,             ///< iterations as graphs
  log_less,          ///< rows of metrics further apart
  save_less,         ///< checkpoints
  evaluate_less,     ///< evaluations
  larger_minibatch,  ///< of as many rows as are learned from at once
};
constexpr auto names_of(Remedy) {
  return std::array{"none",  "more_threads", "more_workers", "fewer_threads", "prefetch",
                    "graph", "log_less",     "save_less",    "evaluate_less", "larger_minibatch"};
}

struct RunPatch {
  std::string settings;  ///< "threads=2 env.count=128"; empty: nothing to change
  double gain = 0;       ///< share of the wall that should go with it
};

/// `gain`: the share of the wall that what is to be mended takes. A run whose trace says no
/// settings has no patch.
RunPatch patch_for(Remedy remedy, const TraceOrigin& origin, double gain);

}  // namespace maglev
