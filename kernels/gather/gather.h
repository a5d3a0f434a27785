#pragma once
// Rows of several columns into contiguous minibatches, in one call.

#include <cstdint>

#include "kernels/philox/philox.h"

namespace maglev {

constexpr int kGatherColumns = 16;

struct GatherColumn {
  const void* from;   ///< [R, row_bytes]
  void* to;           ///< [B, row_bytes], written
  int64_t row_bytes;  ///< of any dtype
};

/// to[i] = from[row(i)] of every column, i in [0, B). Every row(i) lies in [0, R).
struct GatherArgs {
  GatherColumn columns[kGatherColumns];
  int count;             ///< columns used
  const int64_t* index;  ///< [B], row(i) = index[i]; or null:
  PermutationKey order;  ///< row(i) = permutation_of(order)(first + i), with no list in memory
  int64_t first;
  int64_t B;
};

void gather_cpu(const GatherArgs& args);

/// The same on `stream` (a cudaStream_t); returns a cudaError_t. Only in builds with device code.
int gather_cuda(const GatherArgs& args, void* stream);

}  // namespace maglev
