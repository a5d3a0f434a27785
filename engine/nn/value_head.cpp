#include "engine/nn/value_head.h"

#include <torch/torch.h>

#include "engine/core/error.h"
#include "engine/nn/linear.h"

namespace maglev {
namespace {
// below this spread returns count as constant
constexpr double kMinStd = 1e-4;
}  // namespace

ValueHead::ValueHead(int64_t F, Initializer& init) {
  weight_ = register_parameter("weight", at::zeros({1, F}));
  bias_ = register_parameter("bias", at::zeros({1}));
  init.orthogonal(weight_, 1.0);
}

at::Tensor ValueHead::forward(const at::Tensor& features) const {
  return linear(features, weight_, bias_).squeeze(1);
}

PopArtHead::PopArtHead(int64_t F, double beta_min, Initializer& init)
    : ValueHead(F, init), beta_min_(beta_min) {
  mean_ = register_buffer("mean", at::zeros({}));
  second_ = register_buffer("second_moment", at::ones({}));
  std_ = register_buffer("std", at::ones({}));
  count_ = register_buffer("count", at::zeros({}));
  scale_ = register_buffer("scale", at::ones({}));
}

at::Tensor PopArtHead::denormalize(const at::Tensor& value) const { return value * std_ + mean_; }

at::Tensor PopArtHead::normalize(const at::Tensor& value) const { return (value - mean_) / std_; }

void PopArtHead::absorb(const at::Tensor& returns, const at::Tensor& weight) {
  at::NoGradGuard no_grad;
  auto total = weight.sum().clamp_min(1.0);
  auto mean = (returns * weight).sum() / total;
  auto second = (returns * returns * weight).sum() / total;
  count_.add_(1);
  auto beta = at::clamp_min(1.0 / count_, beta_min_);
  auto old_mean = mean_.clone(), old_std = std_.clone();
  mean_.add_(beta * (mean - mean_));
  second_.add_(beta * (second - second_));
  std_.copy_(at::sqrt(at::clamp_min(second_ - mean_ * mean_, kMinStd * kMinStd)));
  scale_.copy_(old_std / std_);
  weight_.mul_(scale_);
  bias_.copy_((bias_ * old_std + old_mean - mean_) / std_);
}

std::shared_ptr<ValueHead> make_value_head(const std::string& kind, int64_t F, double popart_beta,
                                           Initializer& init) {
  if (kind == "plain") return std::make_shared<ValueHead>(F, init);
  MAGLEV_ASSERT(kind == "popart", "the option table knows the kinds");
  return std::make_shared<PopArtHead>(F, popart_beta, init);
}

}  // namespace maglev
