#pragma once
#include <ATen/core/Tensor.h>

namespace maglev {

/// A gated recurrent unit (kernels/gru, one block) through L steps of B sequences.
struct GruScan {
  at::Tensor products;  ///< [L, B, 3 * H] f32: of what each step sees with the gates' weights
  at::Tensor bias;      ///< [3 * H] f32
  at::Tensor weight;    ///< [3 * H, H] f32, of what is remembered
  at::Tensor h;         ///< [B, H] f32, before the first step
  at::Tensor keep;      ///< [L, B] f32: 0 where a step forgets what was before it, else 1
};

/// What is remembered behind each step, [L, B, H] f32, with gradients of all but keep; weights have
/// theirs of all steps at once. One kernel there and one back; a product and a launch a step on
/// CUDA for more than kMostGruScanUnits, and for one step. A sequence's result does not depend on
/// other sequences on a processor and in the kernel. Graph-safe.
at::Tensor gru_scan(const GruScan& scan);

/// The same step by step in ATen.
at::Tensor gru_scan_reference(const GruScan& scan);

}  // namespace maglev
