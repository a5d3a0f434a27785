#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/atom_sum/atom_sum.h"

namespace maglev {

/// How atoms become a goal's sum.
struct AtomSumRule {
  double first_sign, second_sign;  ///< of an atom's arguments
  AtomDivisor divisor;
};

/// goals [U, A, 3] i32, tables [.., E] f32 with gradients -> [U, E] f32. Row 0 of a table counts
/// nothing and has no gradient. Where a goal has a number that is no row a processor throws Error,
/// and on a device, which tells the host nothing, the goal becomes no number. Graph-safe.
at::Tensor atom_sum(const at::Tensor& goals, const at::Tensor& predicates,
                    const at::Tensor& constants, const AtomSumRule& rule);

/// The same in ATen, on any device and also in f64, for tables whose row 0 is 0.
at::Tensor atom_sum_reference(const at::Tensor& goals, const at::Tensor& predicates,
                              const at::Tensor& constants, const AtomSumRule& rule);

}  // namespace maglev
