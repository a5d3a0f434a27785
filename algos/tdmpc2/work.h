#pragma once
// What TD-MPC2 computes in an iteration, from sizes alone.

#include <vector>

#include "algos/tdmpc2/model_shape.h"
#include "algos/tdmpc2/options.h"
#include "engine/algo/algorithm.h"

namespace maglev::tdmpc2 {

/// Plans (or the policy prior), and the updates that are due for the steps. Of products what no
/// implementation can do without: only the two value networks that are drawn, and policy
/// trajectories rolled once a plan.
std::vector<StageWork> planned_work(const Options& options, const AlgoContext& context);

/// Launches of one plan on a device with tdmpc2.prune, from the latent to the action, without tasks
/// and with ends of layers apart from products (DevicePlanner).
double plan_launches(const Options& options, const ModelShape& shape);

}  // namespace maglev::tdmpc2
