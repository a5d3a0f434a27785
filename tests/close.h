#pragma once
// Comparison of tensors within a tolerance. MAGLEV_TOL_SCALE multiplies every tolerance: 0 shows
// what is not equal to the bit, and a message tells which share of its tolerance a comparison used.

#include <cstdlib>
#include <string>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

namespace maglev {

/// |ours - reference| <= tolerance * max(1, |reference|) everywhere; 0 = bit for bit. NaN equals
/// nothing.
inline testing::AssertionResult close(const at::Tensor& ours, const at::Tensor& reference,
                                      double tolerance) {
  static const char* scale = std::getenv("MAGLEV_TOL_SCALE");
  if (scale) tolerance *= std::atof(scale);
  if (ours.sizes() != reference.sizes() || ours.scalar_type() != reference.scalar_type())
    return testing::AssertionFailure()
           << "shapes or dtypes differ: " << ours.toString() << ours.sizes() << " and "
           << reference.toString() << reference.sizes();
  if (at::equal(ours, reference)) return testing::AssertionSuccess();
  auto a = ours.detach().to(at::kDouble), b = reference.detach().to(at::kDouble);
  const double worst = (at::abs(a - b) / at::clamp_min(at::abs(b), 1.0)).max().item<double>();
  auto result = worst <= tolerance ? testing::AssertionSuccess() : testing::AssertionFailure();
  return result << "worst difference " << worst << ", tolerance " << tolerance;
}

}  // namespace maglev
