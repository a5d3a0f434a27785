#pragma once
// The gradients of a kernel: its reference's against differences in f64, its own against those.

#include "verbs/kernels/parity.h"

namespace maglev::verbs::kernels {

struct GradientCheck {
  bool has_gradient = true;  ///< false: the case has no inputs
  Parity reference;          ///< the reference's f64 gradients against central differences of it
  Parity fused;  ///< the fused kernel's gradients against the reference's in f64, rounded to f32
  bool ok() const { return !has_gradient || (reference.ok && fused.ok); }
};

/// Relative and absolute, of the reference's f64 gradients against central differences.
constexpr double kDifferenceTolerance = 1e-6;

/// Differences are taken of at most 64 elements of an input, spread evenly, the first and the last
/// among them. `scale` multiplies the case's tolerance.
GradientCheck check_gradient(const KernelCase& kernel_case, double scale);

/// Checks every case of the kernels on every device and prints a line each. Returns the exit
/// status: 1 when one failed.
int print_gradients(const std::vector<KernelEntry>& kernels,
                    const std::vector<at::Device>& devices);

}  // namespace maglev::verbs::kernels
