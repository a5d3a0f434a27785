#pragma once
// One fully connected layer of a wide network on a panel (base/simd/panel.h): W x + b, then
// LayerNorm with Mish or SimNorm. Weights are packed once and read by many panels, so a layer of
// any width runs at the rate of multiply-adds in registers.

#include <cstdint>
#include <span>

#include "base/core/hd.h"
#include "base/simd/panel.h"

namespace maglev {

/// What follows the product.
enum class DenseEnd : int32_t {
  none,
  mish,     ///< LayerNorm, then x tanh(softplus(x)) (Misra, "Mish", 2019)
  simnorm,  ///< LayerNorm, then a softmax in each group of kSimNormGroup consecutive features
            ///< (Lavoie et al., "Simplicial embeddings in self-supervised learning", 2022)
};

constexpr int64_t kSimNormGroup = 8;
/// Added to the variance by LayerNorm.
constexpr float kLayerNormEps = 1e-5f;

/// Outputs whose weights lie side by side in packed weights.
constexpr int64_t kDenseTile = 12;

/// Floats of a packed layer; packed weights are aligned to 64 bytes.
constexpr int64_t packed_dense_size(int64_t out, int64_t in) {
  return (out + kDenseTile - 1) / kDenseTile * kDenseTile * in;
}

/// Weight of output o and input i, at weight[o * out_step + i * in_step], to
/// packed[(o / kDenseTile * in + i) * kDenseTile + o % kDenseTile]; zeros where a tile has no
/// output. One of the steps is 1. Torch's [out, in] has steps in and 1; steps 1 and in of the same
/// array pack its transpose.
struct DensePack {
  const float* weight;
  int64_t out, in;
  int64_t out_step, in_step;
  float* packed;  ///< [packed_dense_size(out, in)], written
};
void pack_dense(const DensePack& args);

/// Some of a layer's inputs: features [first, first + features).
struct DenseSegment {
  const float* x;  ///< [features][stride]
  int64_t first, features;
};

/// z = W x + b over the segments given, times `factor`; xhat = (z - mean) / sqrt(variance + eps)
/// over the outputs; y = end(gain xhat + shift). Pointers of panels are aligned to 64 bytes, stride
/// is a multiple of 16; columns up to the next multiple of 16 behind `rows` are computed too,
/// further ones are not touched. A row's result does not depend on its place, on other rows nor on
/// `rows`.
struct DenseForward {
  const float* weight;  ///< [packed_dense_size(out, in)], by pack_dense
  int64_t in, out;
  /// What is added to the products: output o takes start[o * start_step]. The bias, or the bias
  /// plus what inputs that are no segment contribute.
  const float* start;
  int64_t start_step = 1;
  std::span<const DenseSegment> segments;
  DenseEnd end = DenseEnd::none;
  const float* gain = nullptr;    ///< [out], where there is an end
  const float* shift = nullptr;   ///< [out], where there is an end
  const float* factor = nullptr;  ///< [out][stride], dropout's scales, or null; with an end only
  float* y;                       ///< [out][stride], written; no input
  float* xhat = nullptr;          ///< [out][stride], written for a backward pass, or null
  float* rstd = nullptr;          ///< [stride], 1 / sqrt(variance + eps), written with xhat
  int64_t stride, rows;
};
/// Instructions are chosen at run time (SSE4 to AVX-512). `out` is a multiple of kSimNormGroup
/// where there is an end.
void dense_cpu(const DenseForward& args);

/// The end alone on a panel of sums [out][stride], with what a backward pass reads: as DenseForward
/// has them.
struct DensePanelEnd {
  DenseEnd end;  ///< mish or simnorm
  int64_t out;
  const float *gain, *shift;
  const float* factor = nullptr;
  float* z;                   ///< [out][stride], the sums; y in their place unless to `pairs`
  uint32_t* pairs = nullptr;  ///< [out / 2][stride]: y rounded, as dense_bf16.h has it; or null
  float* xhat = nullptr;
  float* rstd = nullptr;
  int64_t stride, rows;
};
void dense_panel_end_cpu(const DensePanelEnd& args);

/// Elements from one environment, row or network to the next.
struct DenseSteps {
  int64_t env = 0, row = 0, net = 0;
};

/// The end alone, on the rows of `envs` environments times `nets` networks side by side, features
/// contiguous: y = end(gain LayerNorm(x + start) + shift). x may be y where their steps are the
/// same. `features` as `out` above.
struct DenseEndRows {
  DenseEnd end;   ///< mish or simnorm
  const void* x;  ///< f32, or bf16 where `bf16`; the arithmetic is f32
  void* y;        ///< likewise, written
  bool bf16 = false;
  int64_t envs = 1, rows, nets = 1, features;
  DenseSteps from, to;           ///< of x and y
  const float* start = nullptr;  ///< f32, or null
  DenseSteps start_steps;        ///< its `row` is not read
  const float *gain, *shift;     ///< f32
  DenseSteps gain_steps;         ///< of gain and shift; `row` is not read
  /// Dropout before the norm: numbers in [0, 1), or null. What has one below `share` becomes 0, what
  /// is kept is divided by 1 - share. [envs][nets][rows][features], as all below.
  const float* uniform = nullptr;
  float share = 0;
  float* exact = nullptr;  ///< y before it is rounded, f32, written; or null
};

/// What dropout multiplies by.
MAGLEV_HD float dropout_factor(float uniform, float share) {
  return uniform < share ? 0.f : 1.f / (1.f - share);
}

/// Allocates a panel.
void dense_end_cpu(const DenseEndRows& args);
/// On `stream` (a cudaStream_t); returns a cudaError_t. At most 4096 features; x, y and their steps
/// are aligned to 16 bytes. Only in builds with device code.
int dense_end_cuda(const DenseEndRows& args, void* stream);

}  // namespace maglev
