#pragma once
// Back through a layer of kernels/dense/dense_bf16.h: what enters a product is rounded to bfloat16,
// sums are f32. The gradient of its inputs is dense_bf16_cpu's product with the weights' transpose;
// its end is dense_end_grad_cpu's. Weight gradients pair neighbouring rows of a panel.

#include <cstdint>

#include "base/simd/pairs.h"
#include "kernels/dense_grad/dense_grad.h"

namespace maglev {

/// d loss / d z of a panel, rounded to nearest even for the products it enters. z is finite.
struct DenseGradPairs {
  const float* dz;  ///< [out][stride], 0 in padding columns
  int64_t out, stride;
  uint32_t* pairs;  ///< [(out + 1) / 2][stride], outputs paired, written; null: not wanted
  uint32_t* rows;   ///< [pair_blocks_size(out, stride / 2)], rows paired, written; null: not wanted
  float* d_bias;    ///< [out], the f32 sums over the rows are added; null: not wanted
};
void dense_grad_pairs_cpu(const DenseGradPairs& args);

/// As DenseInputGrad, from pairs of outputs.
struct DenseInputGradBf16 {
  const uint32_t* weight;  ///< the transpose packed by pack_dense_bf16
  int64_t out;
  const uint32_t* dz;       ///< [(out + 1) / 2][stride]
  int64_t first, features;  ///< first is a multiple of kPairBlock
  float* dx;                ///< [features][stride], written
  bool add;                 ///< to what dx holds, instead
  int64_t stride;
};
void dense_input_grad_bf16_cpu(const DenseInputGradBf16& args);

/// As DenseColumns: from pairs of features to pairs of rows, blocks of 64 features each
/// [stride / 2][features].
struct DenseColumnsBf16 {
  const uint32_t* x;  ///< [(in + 1) / 2][stride]
  int64_t in, stride;
  uint32_t* columns;  ///< [dense_columns_size(in, stride) / 2], written
};
void dense_columns_bf16_cpu(const DenseColumnsBf16& args);

/// d loss / d W of outputs [first, first + count) over all panels, first a multiple of kPairBlock.
struct DenseWeightGradBf16 {
  const uint32_t* columns;  ///< of the first panel
  int64_t columns_step;     ///< from one panel's to the next, a multiple of 16
  const uint32_t* dz;       ///< rows paired, of the first panel
  int64_t dz_step;
  int64_t panels, stride;
  int64_t in, first, count;
  float* d_weight;   ///< [out, in], rows of those outputs written
  bool add = false;  ///< to what d_weight holds, instead
};
void dense_weight_grad_bf16_cpu(const DenseWeightGradBf16& args);

}  // namespace maglev
