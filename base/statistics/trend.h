#pragma once
// Whether something grows, from few and noisy samples.

#include <span>

namespace maglev {

struct Trend {
  double slope =
      0;  ///< of y over x: the median of the slopes between all pairs (Theil, 1950; Sen, 1968)
  /// Two-sided, of Kendall's S by its normal approximation with ties of y (Kendall, "Rank
  /// correlation methods", 1970): how likely so clear an order is where there is no trend. 1 where
  /// nothing is known.
  double p = 1;
};

/// Of y over x, of equal sizes, x increasing; O(n^2). Fewer than four samples say nothing: {0, 1}.
Trend trend_of(std::span<const double> x, std::span<const double> y);

}  // namespace maglev
