#include "engine/device/tolerance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ATen.h>

namespace maglev {

Tolerance Tolerance::of_sums(int64_t roundings, double unit) {
  constexpr double kLambda = 6;
  return {2 * kLambda * std::sqrt(double(roundings)) * unit, /*of_largest=*/true};
}

double share_used(const at::Tensor& expected, const at::Tensor& came, const Tolerance& tolerance) {
  const auto reference = expected.detach().to(at::kCPU, at::kDouble).contiguous();
  const auto ours = came.detach().to(at::kCPU, at::kDouble).contiguous();
  const double *e = reference.const_data_ptr<double>(), *c = ours.const_data_ptr<double>();
  const int64_t count = reference.numel();
  double largest = 0;
  for (int64_t i = 0; tolerance.of_largest && i < count; ++i)
    if (std::isfinite(e[i])) largest = std::max(largest, std::abs(e[i]));
  double worst = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (e[i] == c[i] || (std::isnan(e[i]) && std::isnan(c[i]))) continue;
    const double scale = tolerance.of_largest ? largest : std::max(1.0, std::abs(e[i]));
    const double share = std::abs(c[i] - e[i]) / (tolerance.share * scale);
    // a NaN on one side only
    worst = std::max(worst, std::isnan(share) ? std::numeric_limits<double>::infinity() : share);
  }
  return worst;
}

}  // namespace maglev
