#pragma once
// Orthonormal rows by arithmetic of our own: initial weights are the same bits on every processor
// with fused multiply-add, which a linear algebra library's are not.

#include <cstdint>

namespace maglev {

/// Lengths of rows are rounded up to this many.
constexpr int64_t kOrthonormalStep = 32;

/// Makes the first `count` rows of `stride` floats orthonormal, in place: each keeps what no row
/// before it holds, scaled to length 1 (modified Gram-Schmidt).
///   rows  [count][stride] f64, aligned to 64 bytes, linearly independent, 0 behind their length
///   stride  a multiple of kOrthonormalStep, at least count
void orthonormalise(double* rows, int64_t count, int64_t stride);

}  // namespace maglev
