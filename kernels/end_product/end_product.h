#pragma once
// The end of one layer and the product of the next as one launch: a chain of small layers on a
// device is as long as its launches. A block makes the ends of its rows in shared memory and
// multiplies there; blocks of other outputs make them again, which costs less than to wait for a
// launch that makes them once.

#include <cstdint>

#include "kernels/dense/dense.h"

namespace maglev {

/// Inputs and outputs are multiplied in tiles of so many a side.
constexpr int64_t kProductTile = 16;
constexpr int64_t product_tiles(int64_t width) {
  return (width + kProductTile - 1) / kProductTile * kProductTile;
}

/// Most features whose ends one launch makes, and most inputs of its product.
constexpr int64_t kMostEndedFeatures = 1024, kMostProductInputs = 1520;

/// y[n, r, g] = [end(rows[n, r, g]), tail[n, r, g]] W[n, g] in bf16: what is multiplied is rounded,
/// sums are f32 and rounded once. A row's result depends on no other row.
struct EndProduct {
  /// The rows that have their end before them: x, start, gain and shift are read, `y` is not
  /// written. No features: only `tail` is multiplied.
  DenseEndRows rows;
  const uint16_t* tail = nullptr;  ///< multiplied as it is
  DenseSteps tail_steps;
  int64_t tails = 0;
  /// Weight of input i and output o: at i * weight_line + o, or where `transposed` at
  /// o * weight_line + i. Up to the next multiple of kProductTile there are finite numbers behind
  /// the last input, and memory behind the last output. Tiles begin at 32 bytes, lines at 16.
  const uint16_t* weight;
  DenseSteps weight_steps;  ///< its `row` is not read
  int64_t weight_line;
  bool transposed = false;
  uint16_t* y;    ///< written, outputs side by side; no input
  DenseSteps to;  ///< of y
  int64_t out;

  int64_t inputs() const { return rows.features + tails; }
};
/// On `stream` (a cudaStream_t) of a device that multiplies bf16 (compute capability 8.0); returns a
/// cudaError_t. x and its steps are aligned to 16 bytes.
int end_product_cuda(const EndProduct& args, void* stream);

}  // namespace maglev
