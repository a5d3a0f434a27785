#pragma once
// What an environment is called where people tell runs apart.

#include <string>

#include "engine/algo/experiment.h"

namespace maglev {

/// "cartpole"; of an environment that is one of many by its setting env.id, with that, without the
/// module before a colon: "gymnasium CartPole-v1".
std::string env_title(const Experiment& experiment);

}  // namespace maglev
