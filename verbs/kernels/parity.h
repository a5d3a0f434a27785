#pragma once
// A fused kernel held to its reference.

#include <cstdint>
#include <string>
#include <vector>

#include "engine/algo/kernel.h"

namespace maglev::verbs::kernels {

struct Parity {
  bool ok = false;
  double share = 0;  ///< of the tolerance that was used; above 1 fails; 0 where every bit is equal
  int64_t different = 0;  ///< elements that are not bit for bit equal
  int64_t elements = 0;
  std::string problem;  ///< when outputs cannot be compared: their number, shapes or dtypes
};

/// Runs both sides of the case and compares every element: |fused - reference| <= tolerance * (1 +
/// |reference|), two NaN being equal. `scale` multiplies the tolerance; a tolerance of 0 asks for
/// equal bits.
Parity check_parity(const KernelCase& kernel_case, double scale);

/// MAGLEV_TOL_SCALE, 1 when unset: 0 shows how far the fused kernels are from bit for bit. Throws
/// Error when it is not a number >= 0.
double tolerance_scale();

/// Checks every case of the kernels on the CPU and, where device code is built and torch sees one,
/// on a CUDA device, and prints a line each with the share of the tolerance used. Returns the exit
/// status: 1 when one failed.
int print_parity(const std::vector<KernelEntry>& kernels);

}  // namespace maglev::verbs::kernels
