#include "algos/dreamer/reference/returns.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "algos/dreamer/model_shape.h"
#include "algos/dreamer/observation.h"

namespace maglev::dreamer {
namespace {

constexpr int64_t kHalf = kBins / 2;
constexpr double kEdge = 20;

// linearly interpolated
at::Tensor percentile(const at::Tensor& sorted, double share) {
  const double place = share * double(sorted.size(0) - 1);
  const int64_t below = int64_t(std::floor(place));
  const int64_t above = std::min(below + 1, sorted.size(0) - 1);
  return at::lerp(sorted[below], sorted[above], place - double(below));
}

// the same of the first `count` [1] i64
at::Tensor percentile(const at::Tensor& sorted, double share, const at::Tensor& count) {
  const auto last = (count - 1).clamp_min(0);
  const auto place = share * last.to(at::kDouble);
  const auto below = place.floor().to(at::kLong), above = at::minimum(below + 1, last);
  return at::lerp(sorted.gather(0, below), sorted.gather(0, above),
                  (place - below).to(sorted.scalar_type()))
      .squeeze(0);
}

}  // namespace

at::Tensor symexp_bins(const at::TensorOptions& options) {
  const auto half = symexp(at::linspace(-kEdge, 0, kHalf + 1, options.dtype(at::kDouble)));
  return at::cat({half, -half.narrow(0, 0, kHalf).flip(0)}).to(options.dtype());
}

at::Tensor binned_mean(const at::Tensor& logits, const at::Tensor& bins) {
  const auto shares = at::softmax(logits, -1) * bins;
  // each bin beside its opposite: what is alike cancels out
  const auto low = shares.narrow(-1, 0, kHalf).flip(-1);
  const auto high = shares.narrow(-1, kHalf + 1, kHalf);
  return shares.select(-1, kHalf) + (low + high).sum(-1);
}

at::Tensor two_hot_code(const at::Tensor& x, const at::Tensor& bins) {
  at::NoGradGuard no_grad;
  const auto within = x.clamp(bins[0], bins[kBins - 1]).unsqueeze(-1);
  // the bins on both sides, and how near x is to the upper one
  const auto above =
      at::searchsorted(bins, within, /*out_int32=*/false, /*right=*/true).clamp_max(kBins - 1);
  const auto below = above - 1;
  const auto low = bins.take(below), high = bins.take(above);
  const auto share = (within - low) / (high - low);
  auto sizes = x.sizes().vec();
  sizes.push_back(kBins);
  return at::zeros(sizes, x.options()).scatter_(-1, below, 1 - share).scatter_(-1, above, share);
}

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& code) {
  return -(code * at::log_softmax(logits, -1)).sum(-1);
}

at::Tensor lambda_returns(const Trajectory& s, double discount, double lambda) {
  const int64_t T = s.reward.size(0) - 1;
  const auto live = discount * (1 - s.terminated), more = lambda * (1 - s.ended);
  std::vector<at::Tensor> returns(static_cast<size_t>(T));
  auto next = s.value[T];
  for (int64_t t = T; t-- > 0;) {
    const auto expected = (1 - more[t + 1]) * s.value[t + 1] + more[t + 1] * next;
    next = s.reward[t + 1] + live[t + 1] * expected;
    returns[size_t(t)] = next;
  }
  return at::stack(returns);
}

at::Tensor moved_range(at::Tensor& range, const at::Tensor& x, double rate,
                       const at::Tensor& weight) {
  at::NoGradGuard no_grad;
  at::Tensor now;
  if (weight.defined()) {
    // what counts comes first
    const auto out = weight.flatten() == 0;
    const auto sorted =
        std::get<0>(x.flatten().masked_fill(out, std::numeric_limits<double>::infinity()).sort());
    const auto count = out.logical_not().sum(0, /*keepdim=*/true);
    now = at::stack({percentile(sorted, 0.05, count), percentile(sorted, 0.95, count)});
  } else {
    const auto sorted = std::get<0>(x.flatten().sort());
    now = at::stack({percentile(sorted, 0.05), percentile(sorted, 0.95)});
  }
  // a batch that is no numbers moves nothing for good
  range.lerp_(at::where(now.isfinite(), now, range), rate);
  return (range[1] - range[0]).clamp_min(1);
}

at::Tensor divergence(const at::Tensor& from, const at::Tensor& to) {
  return (from.exp() * (from - to)).sum(at::IntArrayRef{-2, -1});
}

}  // namespace maglev::dreamer
