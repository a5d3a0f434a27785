#include "engine/nn/normalizer.h"

#include <torch/torch.h>

namespace maglev {

RunningNorm::RunningNorm(int64_t D, double clip) : clip_(clip) {
  mean_ = register_buffer("mean", at::zeros({D}));
  var_ = register_buffer("var", at::ones({D}));
  count_ = register_buffer("count", at::zeros({}, at::kDouble));
}

at::Tensor RunningNorm::forward(const at::Tensor& x) const {
  return at::clamp((x - mean_) * at::rsqrt(var_ + 1e-8), -clip_, clip_);
}

void RunningNorm::absorb(const at::Tensor& rows, const at::Tensor& weight) {
  at::NoGradGuard no_grad;
  auto x = rows.to(at::kDouble);
  auto w = weight.defined() ? weight.to(at::kDouble).unsqueeze(1)
                            : at::ones({x.size(0), 1}, x.options());
  auto fresh = w.sum(), some = fresh.clamp_min(1);
  auto batch_mean = (x * w).sum(0) / some;
  auto batch_var = ((x - batch_mean).square() * w).sum(0) / some;
  auto mean = mean_.to(at::kDouble), var = var_.to(at::kDouble);
  auto total = count_ + fresh, all = total.clamp_min(1);
  auto delta = batch_mean - mean;
  auto m2 = var * count_ + batch_var * fresh + delta * delta * count_ * fresh / all;
  mean_.copy_(mean + delta * fresh / all);
  var_.copy_(m2 / all);
  count_.copy_(total);
}

RewardNorm::RewardNorm(int64_t rows, double gamma, double clip) : gamma_(gamma), clip_(clip) {
  running_ = register_buffer("running", at::zeros({rows}));
  stats_ = register_module("stats", std::make_shared<RunningNorm>(1));
}

at::Tensor RewardNorm::absorb(const at::Tensor& reward, const at::Tensor& done,
                              const at::Tensor& valid) {
  at::NoGradGuard no_grad;
  const int64_t T = reward.size(0);
  auto returns = at::empty_like(reward);
  for (int64_t t = 0; t < T; ++t) {
    running_.mul_(gamma_).add_(reward[t]);
    returns[t].copy_(running_);
    running_.mul_(1 - done[t].to(at::kFloat));
  }
  stats_->absorb(returns.reshape({-1, 1}), valid.reshape(-1));
  return at::clamp(reward * at::rsqrt(var() + 1e-8), -clip_, clip_);
}

at::Tensor RewardNorm::var() const { return stats_->named_buffers()["var"]; }

}  // namespace maglev
