#pragma once
// Comparison of tensors within a tolerance. MAGLEV_TOL_SCALE multiplies every tolerance: 0 shows
// what is not equal to the bit, and a message tells which share of its tolerance a comparison used.

#include <cstdlib>
#include <limits>
#include <string>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "engine/device/tolerance.h"

namespace maglev {

/// Within `tolerance` everywhere, a number being one of max(1, |reference|); 0 = bit for bit. NaN
/// equals nothing.
inline testing::AssertionResult close(const at::Tensor& ours, const at::Tensor& reference,
                                      const Tolerance& tolerance) {
  static const char* scale = std::getenv("MAGLEV_TOL_SCALE");
  if (ours.sizes() != reference.sizes() || ours.scalar_type() != reference.scalar_type())
    return testing::AssertionFailure()
           << "shapes or dtypes differ: " << ours.toString() << ours.sizes() << " and "
           << reference.toString() << reference.sizes();
  if (at::equal(ours, reference)) return testing::AssertionSuccess();
  const double share =
      at::isnan(ours).any().item<bool>()
          ? std::numeric_limits<double>::infinity()
          : share_used(reference, ours, tolerance * (scale ? std::atof(scale) : 1));
  auto result = share <= 1 ? testing::AssertionSuccess() : testing::AssertionFailure();
  return result << 100 * share << " % of tolerance " << tolerance.share
                << (tolerance.of_largest ? " of the largest" : "");
}

/// The lengths of the sums of a network's layers, added up: no way through it is longer.
template <class Module>
int64_t sums_of(const Module& network) {
  int64_t lengths = 0;
  for (const auto& p : network.parameters())
    if (p.dim() >= 2) lengths += p.numel() / p.size(0);
  return lengths;
}

}  // namespace maglev
