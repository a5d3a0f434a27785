#include "algos/dreamer/fused/sight.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "algos/dreamer/row_weights.h"

namespace maglev::dreamer {

at::Tensor Sight::encode(const Observation& rows, bool learn) {
  // layers choose their kernels by whether there will be a way back: it is begun in any case
  at::AutoGradMode with_grad(true);
  const auto tokens = encoder_->forward(rows, products_);
  tokens_ = learn ? tokens : at::Tensor();
  return tokens.detach();
}

void Sight::encode_back(const at::Tensor& d_tokens) {
  tokens_.backward(d_tokens);
  tokens_.reset();
}

at::Tensor Sight::decode(const at::Tensor& feature, const Observation& rows, double weight,
                         const at::Tensor& row_weight, at::Tensor& d_feature) {
  at::Tensor loss, leaf = feature.detach();
  {
    at::AutoGradMode with_grad(true);
    leaf.set_requires_grad(true);
    const Latent latent{leaf.narrow(1, 0, shape_.deter),
                        leaf.narrow(1, shape_.deter, shape_.flat_stoch())};
    loss = weight * weighted(decoder_->loss(latent, rows, products_), row_weight).sum();
    loss.backward();
  }
  d_feature.add_(leaf.grad());
  return loss.detach();
}

}  // namespace maglev::dreamer
