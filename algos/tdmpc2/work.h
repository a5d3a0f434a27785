#pragma once
// What TD-MPC2 computes in an iteration, from sizes alone.

#include <vector>

#include "algos/tdmpc2/options.h"
#include "engine/algo/algorithm.h"

namespace maglev::tdmpc2 {

/// Plans (or the policy prior), and the updates that are due for the steps. Of products what no
/// implementation can do without: only the two value networks that are drawn, and policy
/// trajectories rolled once a plan.
std::vector<StageWork> planned_work(const Options& options, const AlgoContext& context);

}  // namespace maglev::tdmpc2
