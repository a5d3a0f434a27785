#pragma once
// Bottlenecks that spans alone do not tell apart: an environment that computes, waits, holds a lock
// or asks the system for memory all the time looks the same, a long env_step. What its threads had
// of the machine meanwhile (base/trace/thread_use.h) says which.

#include <vector>

#include "base/timeline/findings.h"

namespace maglev {

/// Those of a run of ours whose trace says what its threads had; none of any other. What they say
/// of the environment's steps adds up to `of_environment`, a share of the wall.
std::vector<Finding> find_by_use(const Analysis& analysis, const std::vector<UsedTime>& threads,
                                 const SpanGraph& graph, double& of_environment);

}  // namespace maglev
