#pragma once
#include <ATen/core/Tensor.h>

namespace maglev {

/// What a unit of `blocks` blocks begins a step with; f32 on one device, elements of a row together.
struct GruInputs {
  const at::Tensor& gates;  ///< [blocks, rows, 3 * width], products without their bias
  const at::Tensor& bias;   ///< [blocks * 3 * width]
  const at::Tensor& h;      ///< [rows, blocks * width]
};
/// Writes the next h into `next` [rows, blocks * width]. Graph-safe.
void gru(const GruInputs& in, at::Tensor& next);
/// The gradients of the gates, laid out as these are, and of h by the way past them, both written,
/// by that of the next h.
void gru_back(const GruInputs& in, const at::Tensor& d_next, at::Tensor& d_gates, at::Tensor& d_h);

/// The next h in ATen, also in f64: gates with their bias.
at::Tensor gru_reference(const at::Tensor& gates, const at::Tensor& h);

}  // namespace maglev
