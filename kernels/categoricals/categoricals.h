#pragma once
// Rows of S categoricals of C classes, mixed with a share of a uniform distribution (Dreamer V3,
// Hafner et al., 2023): draws, their straight-through gradient (Bengio et al., 2013), and the
// divergence of two such rows with the gradients of both, never below free nats.
//   p = (1 - unimix) softmax(logits) + unimix / C

#include <cstdint>

#include "base/core/hd.h"
#include "kernels/gru/carried.h"

namespace maglev {

struct Categoricals {
  int64_t rows, S, C;
  float unimix;

  MAGLEV_HD float floor() const { return unimix / float(C); }
  /// What a share of p beyond the floor is of the softmax; 0 where there is none.
  MAGLEV_HD float unmixed() const { return unimix < 1.f ? 1.f / (1.f - unimix) : 0.f; }
};

struct CategoricalDraw {
  Categoricals of;
  const float *logits, *bias;  ///< [rows][S * C] products, [S * C]
  const float* uniforms;       ///< [rows][S] in (0, 1)
  float* probs;                ///< [rows][S * C], written
  float* one_hot;              ///< [rows][one_hot_row], S * C of each written
  int64_t one_hot_row;
  uint8_t* category;            ///< [rows][S], written; null: not wanted
  Carried<float> carried = {};  ///< written, of one_hot
};

struct CategoricalBack {
  Categoricals of;
  const float* probs;  ///< [rows][S * C]
  const float*
      d_one_hot;  ///< [rows][d_one_hot_row]: of the draw, which is that of the probabilities
  int64_t d_one_hot_row;
  const float* d_probs;                 ///< [rows][S * C], added; null: none
  Carried<const float> d_carried = {};  ///< added to d_one_hot, times keep
  float* d_logits;                      ///< [rows][S * C], written
};

/// Of posterior and prior: divergence = sum of p log(p / q) of a row. Where it is `free` or more,
/// its gradient flows into the prior by the weight `to_prior` and into the posterior by
/// `to_posterior`.
struct CategoricalDivergence {
  Categoricals of;
  const float* posterior;     ///< [rows][S * C] probabilities p
  const float *prior, *bias;  ///< logits [rows][S * C] without their bias [S * C]
  float free, to_prior, to_posterior;
  float* divergence;   ///< [rows], written
  float* d_prior;      ///< [rows][S * C], written: of the logits; may be where they are
  float* d_posterior;  ///< [rows][S * C], written: of the probabilities
};

void categorical_draw_cpu(const CategoricalDraw& args);
void categorical_back_cpu(const CategoricalBack& args);
void categorical_divergence_cpu(const CategoricalDivergence& args);
/// On `stream` (a cudaStream_t); return a cudaError_t. Only in builds with device code.
int categorical_draw_cuda(const CategoricalDraw& args, void* stream);
int categorical_back_cuda(const CategoricalBack& args, void* stream);
int categorical_divergence_cuda(const CategoricalDivergence& args, void* stream);

}  // namespace maglev
