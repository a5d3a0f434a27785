#pragma once
// Back through a layer of kernels/dense on panels (base/simd/panel.h): its end, its inputs and
// its weights. Weight gradients wait until every panel has been through the network; then each is
// one product over the rows of all panels, written once, so there is no copy of the gradient a
// thread and results do not depend on how many there are.

#include <algorithm>
#include <cstdint>

#include "kernels/dense/dense.h"

namespace maglev {

/// From d loss / d y to d loss / d z of a DenseForward with an end. All columns of the stride are
/// computed: what forward left must be finite there.
struct DenseEndGrad {
  DenseEnd end;  ///< mish or simnorm
  int64_t out;
  const float* gain;    ///< [out]
  const float* shift;   ///< [out]
  const float* y;       ///< [out][stride], simnorm's; else not read
  const float* xhat;    ///< [out][stride]
  const float* rstd;    ///< [stride]
  const float* factor;  ///< [out][stride], as forward had it, or null
  float* dy;            ///< [out][stride], 0 in padding columns; becomes d loss / d z
  float* d_gain;        ///< [out], added to; null: neither it nor d_shift is wanted
  float* d_shift;       ///< [out], added to
  int64_t stride;
};
void dense_end_grad_cpu(const DenseEndGrad& args);

/// d loss / d x of features [first, first + features) = W^T dz.
struct DenseInputGrad {
  const float* weight;  ///< [out, in], torch's layout
  int64_t in, out;
  const float* dz;  ///< [out][stride]
  int64_t first, features;
  float* dx;  ///< [features][stride], written
  bool add;   ///< to what dx holds, instead
  int64_t stride;
};
void dense_input_grad_cpu(const DenseInputGrad& args);

/// A panel's inputs as DenseWeightGrad wants them: blocks of 64 features, each [stride][features]
/// with the last one's features rounded up to 16 (anything finite behind them).
struct DenseColumns {
  const float* x;  ///< [in][stride]
  int64_t in, stride;
  float* columns;  ///< [dense_columns_size(in, stride)], written
};
constexpr int64_t kColumnBlock = 64;
constexpr int64_t dense_columns_size(int64_t in, int64_t stride) {
  return (in + 15) / 16 * 16 * stride;
}
void dense_columns_cpu(const DenseColumns& args);

/// d loss / d W and d loss / d b of outputs [first, first + count) over all panels.
struct DenseWeightGrad {
  const float* columns;  ///< of the first panel, aligned to 64 bytes
  int64_t columns_step;  ///< from one panel's to the next, a multiple of 16
  const float* dz;       ///< [out][stride] of the first panel, 0 in padding columns
  int64_t dz_step;
  int64_t panels, stride;
  int64_t in, first, count;
  float* d_weight;  ///< [out, in], rows of those outputs written
  float* d_bias;    ///< [out], likewise
};
void dense_weight_grad_cpu(const DenseWeightGrad& args);

}  // namespace maglev
