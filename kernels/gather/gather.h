#pragma once
// Rows of several columns into contiguous minibatches, in one call.

#include <cstdint>

#include "engine/core/permute.h"

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
  Permutation order;     ///< row(i) = order(first + i), with no list in memory
  int64_t first;
  int64_t B;

  MAGLEV_HD int64_t row(int64_t i) const {
    return index ? index[i] : int64_t(order(uint64_t(first + i)));
  }
};

void gather_cpu(const GatherArgs& args);

/// The same on `stream` (a cudaStream_t); returns a cudaError_t. Only in builds with device code.
int gather_cuda(const GatherArgs& args, void* stream);

}  // namespace maglev
