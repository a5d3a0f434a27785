#pragma once
// What Dreamer will hold at its peak, from sizes alone.

#include <vector>

#include "algos/dreamer/options.h"
#include "engine/algo/algorithm.h"

namespace maglev::dreamer {

/// Parameters and what belongs to them, and the activations of an update. The replay is the
/// trainer's.
std::vector<MemoryPart> planned_memory(const Options& options, const AlgoContext& context);
/// Of these, what a policy alone holds.
std::vector<MemoryPart> policy_memory(const Options& options, const AlgoContext& context);

}  // namespace maglev::dreamer
