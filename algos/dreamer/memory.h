#pragma once
// What Dreamer will hold at its peak, from sizes alone.

#include <vector>

#include "algos/dreamer/model_shape.h"
#include "algos/dreamer/options.h"
#include "engine/algo/algorithm.h"

namespace maglev::dreamer {

/// Parameters and what belongs to them, and the activations of an update. The replay is the
/// trainer's.
std::vector<MemoryPart> planned_memory(const Options& options, const AlgoContext& context);
/// Of these, bytes of what the fused learner rounds in bf16 on a GPU
/// (kernels/products/rounded_factors_op.h).
int64_t rounded_bytes(const Options& options, const ModelShape& shape, const AlgoContext& context);
/// Of these, what a policy alone holds.
std::vector<MemoryPart> policy_memory(const Options& options, const AlgoContext& context);

}  // namespace maglev::dreamer
