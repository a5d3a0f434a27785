#pragma once
// Whether environments can be had at all, asked before their memory is taken: a run's plan knows
// (engine/train/memory_plan.h), an evaluation and an environment by itself have none.

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "base/env/entry.h"

namespace maglev {

/// Throws Error where N environments, and one time step of what they show, take more than the
/// machine or its group has, whoever else holds some of it. On a processor only.
void expect_env_room(const EnvEntry& entry, const void* params, int64_t N, at::Device device);

}  // namespace maglev
