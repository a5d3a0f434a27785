#pragma once
// PopArt in one call (van Hasselt et al., "Learning values across many orders of magnitude", 2016):
// the moments of the returns move, and weight, bias and the optimiser's moments of the value head
// follow, so that every denormalised output stays what it was.

#include <cmath>
#include <cstdint>

#include "base/core/hd.h"

namespace maglev {

struct PopArtArgs {
  const float *returns, *weight;  ///< [M], weight >= 0
  int64_t M;
  float beta_min;  ///< step size of the moments: max(1 / updates, beta_min)
  /// Scalars, updated; `second` is the returns' second moment, `count` the updates so far.
  float *mean, *second, *std, *count;
  float* scale;                     ///< scalar, written: old std / new std
  float *head_weight, *head_bias;   ///< [F] and [1], rescaled
  float *adam_first, *adam_second;  ///< [F + 1] of weight and bias, rescaled; or null
  int64_t F;
};

/// Sums run in f64 in an order that depends on M alone: the same bits on every CPU.
void popart_cpu(const PopArtArgs& args);

/// The same on `stream` (a cudaStream_t); returns a cudaError_t. Only in builds with device code.
int popart_cuda(const PopArtArgs& args, void* stream);

/// Sums of weight, weight * return, weight * return^2.
struct ReturnSums {
  double weight, first, second;
};

MAGLEV_HD void add(ReturnSums& sums, double x, double weight) {
  const double weighted = weight * x;
  sums.weight += weight;
  sums.first += weighted;
  sums.second += weighted * x;
}

/// Moves the scalars and the bias; head_weight and the optimiser's moments are the caller's.
MAGLEV_HD void popart_scalars(const PopArtArgs& a, const ReturnSums& sums) {
  // below this spread returns count as constant
  constexpr double kMinVar = 1e-8;
  const double total = sums.weight > 1 ? sums.weight : 1;
  const float updates = *a.count + 1;
  const double average = 1 / double(updates), beta = average > a.beta_min ? average : a.beta_min;
  const double old_mean = *a.mean, old_std = *a.std;
  const double mean = old_mean + beta * (sums.first / total - old_mean);
  const double second = *a.second + beta * (sums.second / total - *a.second);
  const double var = second - mean * mean;
  *a.count = updates;
  *a.mean = float(mean);
  *a.second = float(second);
  *a.std = float(sqrt(var < kMinVar ? kMinVar : var));
  // from the rounded numbers, which denormalise
  *a.scale = float(old_std / *a.std);
  *a.head_bias = float((*a.head_bias * old_std + old_mean - *a.mean) / *a.std);
}

}  // namespace maglev
