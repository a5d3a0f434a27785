#pragma once
// Back through a layer of kernels/dense on panels (base/simd/panel.h): its end, its inputs and
// its weights; and back through the end alone on rows. Weight gradients wait until every panel has
// been through the network; then each is one product over the rows of all panels, written once, so
// there is no copy of the gradient a thread and results do not depend on how many there are.

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
  /// [packed_dense_size(in, out)], W^T by pack_dense, which is read in place of `weight` where
  /// first is 0: faster. Null: there is none.
  const float* transpose = nullptr;
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

/// Rows whose gradients of start, gain and shift are one part.
constexpr int64_t kEndGradRows = 16;
constexpr int64_t end_grad_parts(int64_t rows) { return (rows + kEndGradRows - 1) / kEndGradRows; }

/// From d loss / d y to d loss / d x of a DenseEndRows of one environment. What forward computed is
/// computed again from its x: nothing but the product and what the layer gave need be kept.
struct DenseEndRowsGrad {
  DenseEndRows of;  ///< as it was given, with its x still there; `y`, `to` and `exact` are not read
  const void* dy;   ///< of x's type
  void* dx;         ///< likewise, written; may be dy
  DenseSteps from, to;  ///< of dy and dx
  /// [end_grad_parts(rows)][nets][3][features]: d loss / d start, gain and shift, each part's rows
  /// summed; written, or null where none is wanted.
  float* parts;
};
/// Allocates panels.
void dense_end_rows_grad_cpu(const DenseEndRowsGrad& args);
/// On `stream` (a cudaStream_t); returns a cudaError_t. At most 4096 features; x, dy, dx and their
/// steps are aligned to 16 bytes. Only in builds with device code.
int dense_end_rows_grad_cuda(const DenseEndRowsGrad& args, void* stream);

/// The parts' sums, in one order, of one DenseEndRowsGrad or several whose parts lie one behind the
/// other.
struct DenseEndFold {
  const float* parts;  ///< [count][nets][3][features]
  int64_t count, nets, features;
  float *d_start, *d_gain, *d_shift;  ///< [nets][features], added to
  int64_t net_step;                   ///< from one network's to the next
};
/// Where the sum of column c of the parts goes.
MAGLEV_HD float* folded_place(const DenseEndFold& a, int64_t c) {
  const int64_t net = c / (3 * a.features), kind = c / a.features % 3;
  float* all = kind == 0 ? a.d_start : kind == 1 ? a.d_gain : a.d_shift;
  return all + net * a.net_step + c % a.features;
}
void dense_end_fold_cpu(const DenseEndFold& args);
int dense_end_fold_cuda(const DenseEndFold& args, void* stream);

}  // namespace maglev
