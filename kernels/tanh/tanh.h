#pragma once
// tanh of arrays: a third of PPO's time in small networks goes into it.

#include <cstdint>

namespace maglev {

/// x[i] = tanh(x[i]), in place. Within 3 units in the last place; the same bits wherever in the
/// array a number stands. NaN stays NaN. Instructions are chosen at run time (SSE4 to AVX-512).
void tanh_cpu(float* x, int64_t count);

}  // namespace maglev
