#pragma once
// The recurrent state-space model of Dreamer V3: a recurrent state h, which a GRU of blocks moves,
// and a stochastic state z of categoricals, drawn from a prior of h or a posterior of h and what is
// seen.

#include <memory>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "algos/dreamer/layers.h"
#include "algos/dreamer/model_shape.h"

namespace maglev::dreamer {

/// Both states of N rows. Leading dimensions may be more.
struct Latent {
  at::Tensor deter;  ///< h [N, D]
  at::Tensor stoch;  ///< z [N, S * C], one 1 in each C

  /// Both side by side [N, D + S * C].
  at::Tensor feature() const;
  Latent detached() const { return {deter.detach(), stoch.detach()}; }
};

/// Logarithms of (1 - unimix) softmax(logits) + unimix / C over the last dimension.
at::Tensor mixed_log_probs(const at::Tensor& logits, double unimix);
/// The category [...] i64 that uniforms [...] in (0, 1) draw of probabilities [..., C].
at::Tensor drawn_category(const at::Tensor& probs, const at::Tensor& uniforms);
/// Categories [...] of any integer type as ones and zeros [..., C] of `options`; from C on they are
/// zeros alone.
at::Tensor one_hot(const at::Tensor& category, int64_t C, const at::TensorOptions& options);
/// Drawn from log_probs [..., S, C] by uniforms [..., S]: [..., S * C], with the gradient of the
/// probabilities (straight through, Bengio et al., 2013).
at::Tensor drawn_stoch(const at::Tensor& log_probs, const at::Tensor& uniforms);

class Rssm : public torch::nn::Module {
 public:
  Rssm(const ModelShape& shape, Initializer& init);

  /// h of the next step: h [N, D], z [N, S * C], action [N, A] -> [N, D].
  at::Tensor next_deter(const Latent& latent, const at::Tensor& action) const;
  /// Log-probabilities [..., S, C] of z by h [..., D] alone.
  at::Tensor prior(const at::Tensor& deter) const;
  /// Likewise by h and a token [..., E] of what is seen.
  at::Tensor posterior(const at::Tensor& deter, const at::Tensor& token) const;

 private:
  at::Tensor categoricals(const at::Tensor& logits) const;

  ModelShape shape_;
  std::shared_ptr<Mlp> from_deter_, from_stoch_, from_action_;
  std::shared_ptr<BlockDense> mix_, gates_;
  std::shared_ptr<NormSilu> mix_norm_;
  std::shared_ptr<Head> posterior_, prior_;
};

}  // namespace maglev::dreamer
