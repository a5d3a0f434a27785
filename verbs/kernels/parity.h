#pragma once
// A fused kernel held to its reference.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/device/kernel.h"
#include "verbs/kernels/results.h"

namespace maglev::verbs::kernels {

struct Parity {
  bool ok = false;
  double share = 0;  ///< of the tolerance that was used; above 1 fails; 0 where every bit is equal
  int64_t different = 0;  ///< elements that are not bit for bit equal
  int64_t elements = 0;
  std::string problem;  ///< when they cannot be compared: their number, shapes or dtypes
};

/// Compares every element, two NaN being equal; a tolerance of 0 asks for equal bits. `what` names
/// a tensor in `problem`: "output".
Parity compare(const Tensors& expected, const Tensors& came, const Tolerance& tolerance,
               const char* what);

/// Runs both sides of the case, forwards and backwards, and compares outputs and gradients within
/// the case's tolerance times `scale`.
Parity check_parity(const KernelCase& kernel_case, double scale);
/// The same beside what `reference_results` gave for the case before.
Parity check_parity(const KernelCase& kernel_case, const Results& expected, double scale);

/// "equal bit for bit", or the share of the tolerance used, or the problem.
std::string parity_text(const Parity& parity, const Tolerance& tolerance);

/// MAGLEV_TOL_SCALE, 1 when unset: 0 shows how far the fused kernels are from bit for bit. Throws
/// Error when it is not a number >= 0.
double tolerance_scale();

/// The CPU and, where device code is built and torch sees one, a CUDA device; `only` one of them by
/// its name, "cpu" or "cuda". Throws Error for another, and for one that is not here.
std::vector<at::Device> case_devices(const std::optional<std::string>& only = {});

/// Those that have no case on any of the devices, a line for people; empty: there is none.
std::string without_cases(const std::vector<KernelEntry>& kernels,
                          const std::vector<at::Device>& devices);

/// What a check found of a case.
struct Checked {
  std::optional<bool> ok;  ///< none: it has nothing to check
  std::string text;
};
/// Checks every case of the kernels on the devices and prints a line each; one that throws has
/// failed. `checked`: which cases are counted, " with gradients". Returns the exit status: 1 when
/// one failed.
int print_checks(const std::vector<KernelEntry>& kernels, const std::vector<at::Device>& devices,
                 const char* checked, const std::function<Checked(const KernelCase&)>& check);

/// Checks every case of the kernels on the devices and prints a line each with the share of the
/// tolerance used. Returns the exit status: 1 when one failed.
int print_parity(const std::vector<KernelEntry>& kernels, const std::vector<at::Device>& devices);

}  // namespace maglev::verbs::kernels
