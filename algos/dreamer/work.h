#pragma once
// What Dreamer computes in an iteration, from sizes alone.

#include <vector>

#include "algos/dreamer/model_shape.h"
#include "algos/dreamer/options.h"
#include "engine/algo/algorithm.h"

namespace maglev::dreamer {

/// Acting, and the updates that are due for the steps: products and convolutions that no
/// implementation can do without, as bench/dreamer_floor.py counts them.
std::vector<StageWork> planned_work(const Options& options, const AlgoContext& context);
/// What an update asks of a device in fp32: launches of ours and operations of ATen.
int64_t update_launches(const Options& options, const ModelShape& shape);

}  // namespace maglev::dreamer
