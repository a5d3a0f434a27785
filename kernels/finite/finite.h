#pragma once
// Whether columns hold numbers only: a flag that falls where one is infinite or not a number.

#include <cstdint>

namespace maglev {

constexpr int kFiniteColumns = 8;

/// Whether all of `values` [count] are finite: an exponent of ones only is not.
bool all_finite(const float* values, int64_t count);

struct FiniteArgs {
  const float* column[kFiniteColumns];
  int64_t count[kFiniteColumns];  ///< of numbers in a column
  int columns;                    ///< used
  float* flag;                    ///< [1], becomes 0 where one is not finite, else stays
};
void finite_cpu(const FiniteArgs& args);
/// On `stream` (a cudaStream_t); returns a cudaError_t. Only in builds with device code.
int finite_cuda(const FiniteArgs& args, void* stream);

}  // namespace maglev
