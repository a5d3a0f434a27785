#pragma once
// How much the rows of a batch count, where some are of agents that wait for others
// (EnvSpec::ends_apart): nothing of what these show is learned.

#include <ATen/core/Tensor.h>

#include "engine/group/group.h"

namespace maglev::dreamer {

/// Of sequences, is_first [T+1, B] u8 with its context, [T, B] f32: 0 where an agent waits, else
/// what makes the mean over the rows of all processes 1. Whether the last row waits a later one
/// would say: where it begins an episode or waits it does not count either. Graph-safe.
at::Tensor row_weights(const at::Tensor& is_first, Group* group);

/// x, of whose rows each counts by its weight; x itself where there is none, and all count alike.
at::Tensor weighted(const at::Tensor& x, const at::Tensor& weight);

}  // namespace maglev::dreamer
