#pragma once
// What the machine a run is planned for does at best: measured here, or as a GPU's maker says.

#include <string>

#include "engine/train/time_plan.h"
#include "verbs/plan/devices.h"

namespace maglev::verbs::plan {

struct KnownRates {
  MachineRates rates;
  std::string source;     ///< one line for people
  bool measured = false;  ///< on this machine
};

/// Peaks as doctor measures them, kept from before or measured now, in about a second; and the
/// environment's step, measured in a fraction of one unless the device steps it. `device` is the
/// named one that is planned for, null: the placement's.
KnownRates rates_for(const Experiment& experiment, const Placement& placement,
                     const NamedDevice* device);

}  // namespace maglev::verbs::plan
