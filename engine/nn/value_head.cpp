#include "engine/nn/value_head.h"

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/nn/linear.h"
#include "kernels/popart/popart_op.h"

namespace maglev {

ValueHead::ValueHead(int64_t F, Initializer& init) {
  weight_ = register_parameter("weight", init.weight({1, F}));
  bias_ = register_parameter("bias", at::zeros({1}));
  init.orthogonal(weight_, 1.0);
}

at::Tensor ValueHead::forward(const at::Tensor& features) const {
  return linear(features, weight_, bias_).squeeze(1);
}

PopArtHead::PopArtHead(int64_t F, double beta_min, Initializer& init)
    : ValueHead(F, init), beta_min_(beta_min) {
  mean_ = register_buffer("mean", at::zeros({}));
  var_ = register_buffer("var", at::ones({}));
  std_ = register_buffer("std", at::ones({}));
  count_ = register_buffer("count", at::zeros({}));
  scale_ = register_buffer("scale", at::ones({}));
}

at::Tensor PopArtHead::denormalize(const at::Tensor& value) const { return value * std_ + mean_; }

at::Tensor PopArtHead::normalize(const at::Tensor& value) const { return (value - mean_) / std_; }

void PopArtHead::absorb(const at::Tensor& returns, const at::Tensor& weight,
                        const AdamMoments& adam) {
  PopArtState state{.mean = mean_,
                    .var = var_,
                    .std = std_,
                    .count = count_,
                    .scale = scale_,
                    .weight = weight_,
                    .bias = bias_,
                    .adam_first = adam.first,
                    .adam_second = adam.second};
  // made with the first returns, where they are
  if (!scratch_.defined() || scratch_.device() != returns.device())
    scratch_ = popart_scratch(returns.device());
  popart_(state, returns, weight, beta_min_, scratch_);
}

std::shared_ptr<ValueHead> make_value_head(ValueHeadKind kind, int64_t F, double popart_beta,
                                           Initializer& init) {
  if (kind == ValueHeadKind::popart) return std::make_shared<PopArtHead>(F, popart_beta, init);
  return std::make_shared<ValueHead>(F, init);
}

}  // namespace maglev
