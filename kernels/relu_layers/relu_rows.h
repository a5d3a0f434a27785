#pragma once
// What stands behind a library's products in a layer on a CUDA device: bias and ReLU in one pass,
// and back through both in another, which sums what the bias gets on its way. Only there: on a
// processor oneDNN does this within its layers.

#include <cstdint>

namespace maglev {

/// Features that rows have to be a multiple of, each row and its memory at 16 bytes; and at most.
constexpr int64_t kReluGroup = 8, kMostReluFeatures = 2048;
/// Sums of a bias's gradient that lie one behind the other at most, one of each part of the rows.
constexpr int64_t kMostReluParts = 1024;

/// Parts of so many rows: a matter of the shape alone, and so the order of sums is.
constexpr int64_t relu_parts(int64_t rows) {
  constexpr int64_t kRowsOfPart = 64;
  const int64_t parts = (rows + kRowsOfPart - 1) / kRowsOfPart;
  return parts < kMostReluParts ? parts : kMostReluParts;
}

/// y = max(y + bias, 0), sums in f32, [rows, features] in place.
struct ReluRows {
  void* y;           ///< f32 or bf16
  const void* bias;  ///< [features], as y
  int64_t rows, features;
  bool bf16;
};

/// g = dy where y > 0, else 0; and parts of its sums over the rows.
struct ReluRowsGrad {
  const void *y, *dy;  ///< f32 or bf16, [rows, features]
  void* g;             ///< the same; may be dy
  float* parts;        ///< [relu_parts(rows), features], overwritten
  int64_t rows, features;
  bool bf16;
};

// On `stream` (a cudaStream_t), pointers to device memory. Return a cudaError_t. Only in builds
// with device code.
int relu_rows_cuda(const ReluRows& args, void* stream);
int relu_rows_grad_cuda(const ReluRowsGrad& args, void* stream);

}  // namespace maglev
