#pragma once
// Standardising columns by running moments, and taking rows into those moments in one pass.
//
// Invariants: sums run in f64 in an order that depends on the sizes alone, with no fused
// multiply-add, so moments have the same bits on every CPU.

#include <cmath>
#include <cstdint>

#include "base/core/hd.h"
#include "kernels/normalize/shifted_sums.h"

namespace maglev {

/// out = clamp((x - mean) / sqrt(var + 1e-8), -clip, clip); NaN stays NaN. Rows stand alone.
struct NormalizeArgs {
  const float* x;           ///< [M, D]
  const float *mean, *var;  ///< [D]
  float* out;               ///< [M, D], written; may be x
  int64_t M, D;
  float clip;
};
void normalize_cpu(const NormalizeArgs& args);

/// Narrow rows are taken 16 at a time as one long row, so that vectors are full whatever D is.
MAGLEV_HD int64_t rows_at_once(int64_t D) { return D < 64 ? 16 : 1; }

/// Running moments of D columns. `var` is the population's.
struct Moments {
  float *mean, *var;  ///< [D]
  double* count;      ///< sum of weights so far
};

/// Rows to take into the moments, each with its weight; weights of sum 0 change nothing.
struct AbsorbArgs {
  const float* x;       ///< [M, D]
  const float* weight;  ///< [M], >= 0; null: 1 each
  int64_t M, D;
  Moments moments;  ///< updated
  double* scratch;  ///< [absorb_scratch(D)], written
};
int64_t absorb_scratch(int64_t D);  ///< whatever M, so that one serves all launches of its owner
void absorb_moments_cpu(const AbsorbArgs& args);

/// Runs discounted returns over a rollout, and takes them into the moments of one column:
///   running = running * gamma + reward[t], taken in with weight[t], then 0 where done[t]
struct ReturnScanArgs {
  const float* reward;  ///< [T, N]
  const uint8_t* done;  ///< [T, N]
  const float* weight;  ///< [T, N], >= 0
  float* running;       ///< [N], updated
  int64_t T, N;
  float gamma;
  Moments moments;  ///< updated
  double* scratch;  ///< [return_scan_scratch(N)], written
};
int64_t return_scan_scratch(int64_t N);
void absorb_returns_cpu(const ReturnScanArgs& args);

/// How a device cuts columns: a block has up to kAbsorbThreads columns, with few of them several
/// rows at once, and its sums are one part of each.
constexpr int64_t kAbsorbThreads = 256;
/// Most blocks of a pass: 4 for each multiprocessor of an H100 are at work at once.
constexpr int64_t kMostAbsorbBlocks = 512;
MAGLEV_HD int64_t absorb_columns_at_once(int64_t D) {
  return D < kAbsorbThreads ? D : kAbsorbThreads;
}
MAGLEV_HD int64_t most_absorb_parts(int64_t D) {
  const int64_t tiles = (D + kAbsorbThreads - 1) / kAbsorbThreads;
  return tiles == 0 || tiles >= kMostAbsorbBlocks ? 1 : kMostAbsorbBlocks / tiles;
}
/// Parts of M rows: 16 a thread, more once there are as many parts as there may be.
MAGLEV_HD int64_t absorb_parts(int64_t M, int64_t D) {
  const int64_t rows = 16 * (kAbsorbThreads / absorb_columns_at_once(D));
  const int64_t parts = (M + rows - 1) / rows, most = most_absorb_parts(D);
  return parts < most ? parts : most;
}

/// The same on `stream` (a cudaStream_t); return a cudaError_t. Only in builds with device code.
int normalize_cuda(const NormalizeArgs& args, void* stream);
int absorb_moments_cuda(const AbsorbArgs& args, void* stream);
int absorb_returns_cuda(const ReturnScanArgs& args, void* stream);

/// Clamps without swallowing a NaN.
MAGLEV_HD float clamp_to(float x, float clip) { return x < -clip ? -clip : x > clip ? clip : x; }

/// Merges a column's sums into its moments (Chan, Golub and LeVeque, "Algorithms for computing the
/// sample variance", 1983). `count` is read only: it serves all columns, and grows behind them.
MAGLEV_HD void merge(const ShiftedSums& sums, double shift, double count, float& mean, float& var) {
  if (!(sums.weight != 0)) return;
  const double off = sums.first / sums.weight, square = sums.second - sums.first * off;
  const double delta = shift + off - mean, total = count + sums.weight;
  // not below 0 by rounding; a NaN stays one
  const double spread = square < 0 ? 0 : square;
  const double merged = var * count + spread + delta * delta * count * sums.weight / total;
  mean = float(mean + delta * sums.weight / total);
  var = float(merged / total);
}

}  // namespace maglev
