#pragma once
// Rows of agents that wait for others (EnvSpec::ends_apart), told by the columns alone.

#include <ATen/core/Tensor.h>

namespace maglev {

/// Which of the first T times are those of one who waits, [T, rows] u8, 1 or 0: is_first [T+1,
/// rows] u8 is set there and behind it (StepColumns::is_first). None is, where agents end together.
at::Tensor waiting_rows(const at::Tensor& is_first);

}  // namespace maglev
