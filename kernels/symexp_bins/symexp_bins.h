#pragma once
// Discrete regression on bins that lie evenly in symlog space while their codes are linear in the
// number itself (Dreamer V3, Hafner et al., 2023): a scalar as a distribution over bins, whose mean
// it is. What two_hot is in symlog space.

#include <cstdint>

#include "base/core/hd.h"

namespace maglev {

/// Bins a row has at most.
constexpr int64_t kMostSymexpBins = 511;

/// Rising values [count], symmetric: value[count - 1 - k] = -value[k]. `count` is odd.
struct SymexpBins {
  const float* value;
  int64_t count;
};

/// The two bins beside a number, and how near it is to the upper one.
struct TwoBins {
  int64_t below;
  float share;  ///< of bin below + 1
};
MAGLEV_HD TwoBins bins_beside(const SymexpBins& bins, float x) {
  const float least = bins.value[0], most = bins.value[bins.count - 1];
  x = x < least ? least : x > most ? most : x;
  // the first bin above x; beyond the last one the last
  int64_t low = 1, high = bins.count - 1;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (bins.value[middle] > x) high = middle;
    else low = middle + 1;
  }
  const float below = bins.value[low - 1], above = bins.value[low];
  return {low - 1, (x - below) / (above - below)};  // of what is no number a share that is none
}

/// Means under softmax(logits + bias). Each bin is added beside its opposite, so that logits alike
/// on both sides of the middle give exactly 0.
struct SymexpMean {
  SymexpBins bins;
  int64_t rows;
  const float *logits, *bias;  ///< [rows][count], [count]
  float* mean;                 ///< [rows], written
};

/// Cross-entropy to the two-hot codes of a target and, weighed, of a second one, and its gradient.
struct SymexpLoss {
  SymexpBins bins;
  int64_t rows;
  const float *logits, *bias;  ///< [rows][count], [count]
  const float* target;         ///< [rows]
  const float* second;         ///< [rows]; null: none
  float second_weight;
  const float* weight;  ///< [rows], of each row's gradient; null: 1
  float factor;         ///< of all gradients
  float* loss;          ///< [rows], written, without weight and factor
  float* d_logits;      ///< [rows][count], written; may be where logits are
};

void symexp_mean_cpu(const SymexpMean& args);
void symexp_loss_cpu(const SymexpLoss& args);
/// On `stream` (a cudaStream_t); return a cudaError_t. Only in builds with device code.
int symexp_mean_cuda(const SymexpMean& args, void* stream);
int symexp_loss_cuda(const SymexpLoss& args, void* stream);

}  // namespace maglev
