#pragma once
// PopArt in one call (van Hasselt et al., "Learning values across many orders of magnitude", 2016):
// the moments of the returns move, and weight, bias and the optimiser's moments of the value head
// follow, so that every denormalised output stays what it was.

#include <cmath>
#include <cstdint>

#include "base/core/hd.h"
#include "kernels/normalize/shifted_sums.h"

namespace maglev {

struct PopArtArgs {
  const float *returns, *weight;  ///< [M], weight >= 0
  int64_t M;
  float beta_min;  ///< step size of the moments: max(1 / updates, beta_min)
  /// Scalars, updated; `count` is the updates so far. The variance is kept, not the second moment:
  /// of returns that are large beside their spread nothing would be left of the difference.
  float *mean, *var, *std, *count;
  float* scale;                     ///< scalar, written: old std / new std
  float *head_weight, *head_bias;   ///< [F] and [1], rescaled
  float *adam_first, *adam_second;  ///< [F + 1] of weight and bias, rescaled; or null
  int64_t F;
};

/// Sums run in f64 in an order that depends on M alone: the same bits on every CPU.
void popart_cpu(const PopArtArgs& args);

/// A device sums returns in parts, a block each, and joins these: 2048 a part, more once there are
/// kMostPopArtParts.
constexpr int64_t kMostPopArtParts = 512;
MAGLEV_HD int64_t popart_parts(int64_t M) {
  const int64_t parts = (M + 2047) / 2048;
  return parts < 1 ? 1 : parts < kMostPopArtParts ? parts : kMostPopArtParts;
}
/// The same on `stream` (a cudaStream_t); returns a cudaError_t. Only in builds with device code.
///   partial [popart_parts(M)], scratch
int popart_cuda(const PopArtArgs& args, ShiftedSums* partial, void* stream);

/// Moves the scalars and the bias by the returns' sums around the old mean; head_weight and the
/// optimiser's moments are the caller's. Where every return is left out, all stays as it was and
/// the scale is 1.
MAGLEV_HD void popart_scalars(const PopArtArgs& a, const ShiftedSums& sums) {
  // below this spread returns count as constant
  constexpr double kMinVar = 1e-8;
  if (sums.weight <= 0) {
    *a.scale = 1;
    return;
  }
  const float updates = *a.count + 1;
  const double average = 1 / double(updates), beta = average > a.beta_min ? average : a.beta_min;
  const double old_mean = *a.mean, old_std = *a.std;
  // moments of these returns, then of a mixture of them and the old ones
  const double above = sums.first / sums.weight, spread = sums.second / sums.weight - above * above;
  const double mean = old_mean + beta * above;
  const double var =
      (1 - beta) * *a.var + beta * (spread > 0 ? spread : 0) + beta * (1 - beta) * above * above;
  *a.count = updates;
  *a.mean = float(mean);
  *a.var = float(var);
  *a.std = float(sqrt(var < kMinVar ? kMinVar : var));
  // from the rounded numbers, which denormalise
  *a.scale = float(old_std / *a.std);
  *a.head_bias = float((*a.head_bias * old_std + old_mean - *a.mean) / *a.std);
}

}  // namespace maglev
