#include "algos/tdmpc2/policy_prior.h"

#include <cmath>

#include <ATen/ATen.h>

namespace maglev::tdmpc2 {

PolicyGaussian policy_gaussian(const at::Tensor& head, const at::Tensor& mask) {
  const int64_t A = head.size(-1) / 2;
  auto mean = head.narrow(-1, 0, A), spread = head.narrow(-1, A, A);
  auto log_std = kLogStdLow + 0.5 * (kLogStdHigh - kLogStdLow) * (at::tanh(spread) + 1);
  if (mask.defined()) mean = mean * mask, log_std = log_std * mask;
  return {mean, log_std};
}

PolicyDraw draw_policy(const at::Tensor& head, const at::Tensor& noise, const at::Tensor& mask,
                       EntropyOf entropy_of) {
  constexpr double kHalfLog2Pi = 0.91893853320467274;
  const int64_t A = head.size(-1) / 2;
  const auto [mean, log_std] = policy_gaussian(head, mask);
  auto eps = noise;
  at::Tensor dims = at::full({}, double(A), head.options());
  if (mask.defined()) {
    eps = eps * mask;
    dims = mask.sum(-1);
  }
  const auto gauss = (-0.5 * eps.square() - log_std - kHalfLog2Pi).sum(-1);
  const auto drawn = mean + eps * at::exp(log_std);
  PolicyDraw draw{.action = at::tanh(drawn), .mean = at::tanh(mean)};
  // the slope of tanh: by log(1 - tanh(x)^2) = 2 (log 2 - x - softplus(-2 x)) it is no 0 where an
  // action is at its end
  const bool of_action = entropy_of == EntropyOf::action;
  const auto squash = (of_action ? 2 * (std::log(2.0) - drawn - at::softplus(-2 * drawn))
                                 : at::log(at::relu(1 - draw.action.square()) + 1e-6))
                          .sum(-1);
  draw.entropy = squash - gauss;
  draw.scaled_entropy = dims * (of_action ? draw.entropy : -gauss);
  return draw;
}

at::Tensor percentile_range(const at::Tensor& x) {
  const auto sorted = std::get<0>(at::sort(x));
  auto percentile = [&](double share) {
    const double place = share * double(x.size(0) - 1);
    const int64_t low = int64_t(std::floor(place)), high = int64_t(std::ceil(place));
    return at::lerp(sorted[low], sorted[high], place - double(low));
  };
  return percentile(0.95) - percentile(0.05);
}

void update_running_scale(at::Tensor& scale, const at::Tensor& x, double tau) {
  // a batch that is no numbers moves nothing for good
  const auto range = percentile_range(x).clamp_min(1);
  scale.lerp_(at::where(range.isfinite(), range, scale), tau);
}

}  // namespace maglev::tdmpc2
