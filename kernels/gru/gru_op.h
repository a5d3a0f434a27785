#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/gru/carried.h"

namespace maglev {

/// What a unit of `blocks` blocks begins a step with; f32 on one device, elements of a row
/// together.
struct GruInputs {
  const at::Tensor& gates;  ///< [blocks, rows, 3 * width], products without their bias
  const at::Tensor& bias;   ///< [blocks * 3 * width]
  const at::Tensor& h;      ///< [rows, blocks * width]
};
/// Rows that go on to the next step times keep [rows], or their gradient; undefined: none do.
struct CarriedRows {
  at::Tensor rows, keep;
};
/// Writes the next h into `next` [rows, blocks * width], and what is carried of it. Graph-safe.
void gru(const GruInputs& in, at::Tensor& next, const CarriedRows& carried = {});
/// The gradients of the gates, laid out as these are, and of h by the way past them, both written,
/// by that of the next h and of what is carried, which may lie where d_h does.
void gru_back(const GruInputs& in, const at::Tensor& d_next, at::Tensor& d_gates, at::Tensor& d_h,
              const CarriedRows& d_carried = {});

/// As the kernels see it.
template <class T>
Carried<T> carried_of(const CarriedRows& c) {
  if (!c.rows.defined()) return {};
  return {c.rows.data_ptr<float>(), c.rows.stride(0), c.keep.const_data_ptr<float>()};
}

/// The next h in ATen, also in f64: gates with their bias.
at::Tensor gru_reference(const at::Tensor& gates, const at::Tensor& h);

}  // namespace maglev
