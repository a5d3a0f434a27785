#pragma once
// A run's environments under random actions, before the run is made: what plans measure and count.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/algo/experiment.h"

namespace maglev {

/// The env.* settings of `experiment` without the prefix, as EnvThroughput and HostEnvs take them.
std::vector<std::pair<std::string, std::string>> own_env_settings(const Experiment& experiment);

/// What its environments show in `steps` steps of random play on the host, or in as many as there
/// is room for: columns [T, rows, shape], as stored. Fewer environments than the run's where they
/// have too many rows. The same each time.
std::vector<at::Tensor> seen_in_random_play(const Experiment& experiment, int64_t steps);

}  // namespace maglev
