#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/gru/gru_op.h"

namespace maglev {

/// S categoricals of C classes a row, of which a share of `unimix` is uniform.
struct CategoricalShape {
  int64_t S, C;
  double unimix;
};

/// What is drawn of rows; f32 on one device. Written.
struct DrawnCategories {
  at::Tensor& probs;         ///< [rows, S * C]
  at::Tensor& one_hot;       ///< [rows, S * C], any stride between rows
  at::Tensor category;       ///< [rows, S] u8; undefined: not wanted
  CarriedRows carried = {};  ///< of one_hot
};
/// Of logits [rows, S * C] without their bias [S * C], by uniforms [rows, S]. Graph-safe.
void draw_categories(const CategoricalShape& shape, const at::Tensor& logits,
                     const at::Tensor& bias, const at::Tensor& uniforms, DrawnCategories drawn);
/// The gradient of logits by that of the draw and of what is carried of it, which pass straight to
/// the probabilities, and by `d_probs` [rows, S * C], which may be undefined.
void draw_categories_back(const CategoricalShape& shape, const at::Tensor& probs,
                          const at::Tensor& d_one_hot, const at::Tensor& d_probs,
                          at::Tensor& d_logits, const CarriedRows& d_carried = {});

/// The divergence of a posterior (probabilities) from a prior (logits without their bias), and how
/// much of its gradient each takes where it is at least `free`.
struct DivergenceInputs {
  const at::Tensor &posterior, &prior, &bias;  ///< [rows, S * C] twice, [S * C]
  double free, to_prior, to_posterior;
};
/// Writes divergences [rows], gradients of the prior's logits, which may be where these are, and of
/// the posterior's probabilities. Graph-safe.
void categorical_divergence(const CategoricalShape& shape, const DivergenceInputs& in,
                            at::Tensor& divergence, at::Tensor& d_prior, at::Tensor& d_posterior);

/// Mixed probabilities [rows, S, C] of logits [rows, S * C] in ATen, also in f64.
at::Tensor mixed_probs_reference(const CategoricalShape& shape, const at::Tensor& logits);

}  // namespace maglev
