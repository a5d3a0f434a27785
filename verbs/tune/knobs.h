#pragma once
// Which settings of an experiment the tuner may change, and to what.

#include <span>
#include <string>
#include <vector>

#include "engine/algo/experiment.h"
#include "engine/host/machine.h"
#include "verbs/tune/search.h"

namespace maglev::verbs::tune {

/// A free setting that cannot matter to this run.
struct Idle {
  std::string setting;
  std::string why;  ///< e.g. "there is no GPU"
};

struct Knobs {
  std::vector<Knob> searched;  ///< those named in `learning` first, then as the table has them
  std::vector<Idle> idle;
};

/// Settings marked as free in the option table, but for those the command line gave, and those of
/// `learning`, which change what is learned: whole numbers, switches and choices. Throws Error on a
/// name in `learning` that is none of these, or that is not measured (bench::unmeasured).
Knobs knobs_of(const Experiment& experiment, const Placement& placement,
               std::span<const std::string> learning);

}  // namespace maglev::verbs::tune
