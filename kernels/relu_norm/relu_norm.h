#pragma once
// LayerNorm (Ba et al., "Layer normalization", 2016) behind the ReLU of products that lack their
// bias yet, with what goes past the layer (He et al., "Deep residual learning", 2016), and its
// gradients. A row:
//   a = max(0, z + bias)     out = past + (a - mean) * inverse * gain + shift
//   inverse = 1 / sqrt(mean((a - mean)^2) + eps), means over the row

#include <cstdint>

namespace maglev {

struct ReluNormArgs {
  int64_t rows, width;
  float* z;                          ///< [rows, width], becomes a
  const float *bias, *gain, *shift;  ///< [width]
  const float* past;                 ///< [rows, width]; null: nothing goes past
  float eps;
  float* out;             ///< [rows, width], written
  float *mean, *inverse;  ///< [rows], written
};

/// Rows whose gradients of gain, shift and bias are one sum.
constexpr int64_t kReluNormChunk = 64;
constexpr int64_t relu_norm_chunks(int64_t rows) {
  return (rows + kReluNormChunk - 1) / kReluNormChunk;
}

struct ReluNormBack {
  int64_t rows, width;
  const float* a;               ///< [rows, width], as forward left it
  const float *mean, *inverse;  ///< [rows]
  const float* gain;            ///< [width]
  const float* d_out;           ///< [rows, width]
  float* d_z;                   ///< [rows, width], written
  float* sums;                  ///< [chunks, 3, width], written: of gain, shift, bias
};

void relu_norm_cpu(const ReluNormArgs& args);
void relu_norm_back_cpu(const ReluNormBack& args);
/// On `stream` (a cudaStream_t); return a cudaError_t. Only in builds with device code.
int relu_norm_cuda(const ReluNormArgs& args, void* stream);
int relu_norm_back_cuda(const ReluNormBack& args, void* stream);

}  // namespace maglev
