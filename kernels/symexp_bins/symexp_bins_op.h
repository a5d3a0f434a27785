#pragma once
#include <ATen/core/Tensor.h>

namespace maglev {

/// Tensors are f32 on one device, bins [bins] as SymexpBins wants them.
/// Writes the mean of bins [bins] under softmax(logits + bias), logits [rows, bins], into mean
/// [rows]. Graph-safe.
void symexp_mean(const at::Tensor& bins, const at::Tensor& logits, const at::Tensor& bias,
                 at::Tensor& mean);

/// What rows are classified as.
struct SymexpTargets {
  const at::Tensor& target;  ///< [rows]
  at::Tensor second;         ///< [rows]; undefined: none
  double second_weight = 0;
  at::Tensor weight;  ///< [rows], of the gradients; undefined: 1
  double factor = 1;  ///< likewise, of all rows
};
/// Writes cross-entropies [rows], not weighted, and leaves their weighted gradient in place of the
/// logits [rows, bins], which lack their bias. Graph-safe.
void symexp_loss_(const at::Tensor& bins, at::Tensor& logits, const at::Tensor& bias,
                  const SymexpTargets& targets, at::Tensor& loss);

}  // namespace maglev
