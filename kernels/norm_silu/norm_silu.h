#pragma once
// SiLU behind a root-mean-square norm (Zhang and Sennrich, "Root mean square layer normalization",
// 2019), of products that lack their bias yet, and its gradients. Dreamer's layers end so.
//   pre = x + bias        out = silu(pre * inverse * scale)
//   inverse = 1 / sqrt(mean(pre^2) + eps) over all elements of a row

#include <cstdint>

#include "base/core/hd.h"

namespace maglev {

/// Rows cut into blocks: element i of block g of row r is data[g * block_stride + r * row_stride +
/// i].
template <class T>
struct BlockRows {
  T* data;
  int64_t row_stride, block_stride;

  MAGLEV_HD T* block(int64_t r, int64_t g) const {
    return data + g * block_stride + r * row_stride;
  }
};

struct NormSiluArgs {
  int64_t rows, blocks, width;  ///< of `blocks * width` elements
  BlockRows<float> x;           ///< becomes pre
  int64_t groups;               ///< row r takes bias and scale r % groups
  const float *bias, *scale;    ///< [groups][blocks * width]
  float eps;
  BlockRows<float> out;  ///< written
  float* inverse;        ///< [rows], written
};

struct NormSiluBack {
  int64_t rows, blocks, width;
  BlockRows<const float> pre;
  int64_t groups;
  const float *inverse, *scale;
  BlockRows<const float> d_out;
  BlockRows<float> d_pre;    ///< written; its sum over rows is the bias's gradient
  BlockRows<float> d_scale;  ///< each row's part of the scale's gradient, written
};

void norm_silu_cpu(const NormSiluArgs& args);
void norm_silu_back_cpu(const NormSiluBack& args);
/// On `stream` (a cudaStream_t); return a cudaError_t. Only in builds with device code.
int norm_silu_cuda(const NormSiluArgs& args, void* stream);
int norm_silu_back_cuda(const NormSiluBack& args, void* stream);

}  // namespace maglev
