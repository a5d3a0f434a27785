#pragma once
// Discrete regression (TD-MPC2, Hansen et al., 2024; Dreamer V3, Hafner et al., 2023): a scalar as
// a distribution over bins that lie evenly in symlog space, symlog(x) = sign(x) ln(1 + |x|). The
// cross-entropy to the two-hot code of a target, and the scalar a distribution stands for.

#include <cmath>
#include <cstdint>

#include "base/core/hd.h"

namespace maglev {

/// Bin b stands for low + b (high - low) / (count - 1) in symlog space.
struct TwoHotBins {
  int64_t count = 101;  ///< at least 2
  float low = -10, high = 10;

  MAGLEV_HD float width() const { return (high - low) / float(count - 1); }
};

/// Where x lies among the bins: its two-hot code weighs bin b by max(0, 1 - |position - b|).
MAGLEV_HD float two_hot_position(const TwoHotBins& bins, float x) {
  const float size = logf(1.f + fabsf(x)), symlog = x < 0 ? -size : size;
  return (fminf(fmaxf(symlog, bins.low), bins.high) - bins.low) / bins.width();
}

/// Cross-entropy of a panel (base/simd/panel.h) and its gradient in place.
struct TwoHotLoss {
  TwoHotBins bins;
  float* logits;  ///< [bins][stride]; becomes weight * d loss / d logits, 0 in padding columns
  const float* target;  ///< [rows], the scalar
  float weight;
  float* loss;  ///< [rows], written, without the weight
  int64_t stride, rows;
};
void two_hot_loss_cpu(const TwoHotLoss& args);

/// value = symexp(sum of probability times bin) of a panel, and its gradient.
struct TwoHotValue {
  TwoHotBins bins;
  float* logits;  ///< [bins][stride]; becomes d value / d logits, 0 in padding columns
  float* value;   ///< [stride], written
  int64_t stride, rows;
};
void two_hot_value_grad_cpu(const TwoHotValue& args);

/// The value alone.
struct TwoHotInverse {
  TwoHotBins bins;
  const float* logits;  ///< [bins][stride]
  float* value;         ///< [stride], written; columns up to the next multiple of 16 behind `rows`
  int64_t stride, rows;
};
void two_hot_inverse_cpu(const TwoHotInverse& args);

/// The cross-entropy of rows that lie one behind the other.
struct TwoHotRows {
  TwoHotBins bins;
  const float* logits;  ///< [rows, bins]
  const float* target;  ///< [cycle]: row r takes target and weight r % cycle
  int64_t cycle;
  const float* weight;  ///< [cycle], or null: all 1
  float scale;          ///< of all weights
  float* loss;          ///< [rows], written, without weights
  float* d_logits;      ///< [rows, bins], written, with them; null: not wanted
  int64_t rows;

  MAGLEV_HD float weight_of(int64_t r) const { return scale * (weight ? weight[r % cycle] : 1.f); }
};
/// On `stream` (a cudaStream_t), pointers to device memory; returns a cudaError_t. Only in builds
/// with device code.
int two_hot_loss_cuda(const TwoHotRows& args, void* stream);

/// Values of rows that lie one behind the other, or the gradient of their logits.
struct TwoHotValueRows {
  TwoHotBins bins;
  const float* logits;   ///< [rows, bins]
  float* value;          ///< [rows], written; null: not wanted
  const float* d_value;  ///< [cycle]: row r takes r % cycle, times `scale`; null: no gradient
  int64_t cycle;
  float scale;
  float* d_logits;  ///< [rows, bins], written where there is a d_value
  int64_t rows;
};
int two_hot_value_cuda(const TwoHotValueRows& args, void* stream);

}  // namespace maglev
