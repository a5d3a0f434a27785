#pragma once
// What a core's multiply-adds allow: the bound that no kernel passes.

#include <cstdint>

namespace maglev {

/// Makes `rounds` rounds of float32 multiply-adds in registers, as wide as kernels make them and
/// enough at once to hide their latency. Returns how many operations that was, two a multiply-add.
double spend_multiply_adds(int64_t rounds);

}  // namespace maglev
