#pragma once
// What TD-MPC2 will hold at its peak, from sizes alone.

#include <vector>

#include "algos/tdmpc2/options.h"
#include "engine/algo/algorithm.h"

namespace maglev::tdmpc2 {

/// Parameters and what belongs to them, and the activations of an update and of the plans that are
/// made at once. The replay is the trainer's.
std::vector<MemoryPart> planned_memory(const Options& options, const AlgoContext& context);
/// Of these, what a policy alone holds.
std::vector<MemoryPart> policy_memory(const Options& options, const AlgoContext& context);

}  // namespace maglev::tdmpc2
