#include "engine/nn/normalizer.h"

#include <ATen/ATen.h>

#include "kernels/normalize/normalize_op.h"

namespace maglev {
namespace {

// whether scratch is to be made: with the first rows, where they are
bool is_missing(const at::Tensor& scratch, const at::Tensor& rows) {
  return !scratch.defined() || scratch.device() != rows.device();
}

}  // namespace

RunningNorm::RunningNorm(int64_t D, double clip) : clip_(clip) {
  mean_ = register_buffer("mean", at::zeros({D}));
  var_ = register_buffer("var", at::ones({D}));
  count_ = register_buffer("count", at::zeros({}, at::kDouble));
}

at::Tensor RunningNorm::forward(const at::Tensor& x) const {
  return normalize(x, mean_, var_, clip_);
}

void RunningNorm::absorb(const at::Tensor& rows, const at::Tensor& weight, Group* group) {
  auto moments = this->moments();
  if (is_missing(scratch_, rows)) scratch_ = moments_scratch(mean_.numel(), rows.device());
  // with others: moments of these rows alone, then those of all processes in order
  if (group) moments = {at::zeros_like(mean_), at::zeros_like(var_), at::zeros_like(count_)};
  absorb_moments_(moments, rows, weight, scratch_);
  if (group) merge(moments, *group);
}

void RunningNorm::merge(const RunningMoments& own, Group& group) {
  // Chan, Golub and LeVeque (1983), in f64 by rank; of no rows nothing is divided by
  constexpr double kLeast = 1e-300;
  const at::Tensor means = group.gather(own.mean).to(at::kDouble);
  const at::Tensor vars = group.gather(own.var).to(at::kDouble), counts = group.gather(own.count);
  at::Tensor mean = mean_.to(at::kDouble), squares = var_.to(at::kDouble) * count_, n = count_;
  for (int64_t rank = 0; rank < group.size(); ++rank) {
    const at::Tensor more = counts[rank], total = n + more, part = more / total.clamp_min(kLeast);
    const at::Tensor shift = means[rank] - mean;
    squares = squares + vars[rank] * more + shift.square() * n * part;
    mean = mean + shift * part;
    n = total;
  }
  mean_.copy_(mean);
  var_.copy_(at::where(n > 0, squares / n.clamp_min(kLeast), var_));
  count_.copy_(n);
}

RewardNorm::RewardNorm(int64_t rows, double gamma, double clip) : gamma_(gamma), clip_(clip) {
  running_ = register_buffer("running", at::zeros({rows}));
  stats_ = register_module("stats", std::make_shared<RunningNorm>(1));
}

at::Tensor RewardNorm::absorb(const at::Tensor& reward, const at::Tensor& done,
                              const at::Tensor& valid) {
  auto moments = stats_->moments();
  if (is_missing(scratch_, reward)) scratch_ = returns_scratch(running_.numel(), reward.device());
  absorb_returns_(moments, running_, reward, done, valid, gamma_, scratch_);
  return normalize(reward.unsqueeze(2), at::zeros_like(moments.mean), moments.var, clip_)
      .squeeze(2);
}

}  // namespace maglev
