#pragma once
// Totals of all environments of a batch, reduced where their slots are.

#include "base/env/entry.h"

namespace maglev {

/// A device adds slots in parts, a block each, and joins these: a slot a thread, more once there
/// are kMostTotalsParts.
constexpr int64_t kTotalsThreads = 128, kMostTotalsParts = 512;
MAGLEV_HD int64_t totals_parts(int64_t count) {
  const int64_t parts = (count + kTotalsThreads - 1) / kTotalsThreads;
  return parts < kMostTotalsParts ? parts : kMostTotalsParts;
}

/// Writes the totals of slots [0, count) to `into` (device memory) and clears them. Adds in an
/// order of its own: sums may differ from take_totals_cpu in the last places. On `stream` (a
/// cudaStream_t); returns a cudaError_t. Only in builds with device code.
///   partial [totals_parts(count)], scratch
int take_totals_cuda(const EnvBatch& batch, EpisodeTotals* partial, EpisodeTotals* into,
                     int64_t count, void* stream);

}  // namespace maglev
