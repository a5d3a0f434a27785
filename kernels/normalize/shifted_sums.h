#pragma once
// Weighted sums of numbers around a point near them, from which their moments are found: around 0
// nothing would be left of a small spread.

#include "base/core/hd.h"

namespace maglev {

/// Sums of weight, of weight * (x - shift), and of weight * (x - shift)^2.
struct ShiftedSums {
  double weight, first, second;
};

/// Adds a number that is `above` the shift.
MAGLEV_HD void add(ShiftedSums& sums, double above, double weight) {
  const double weighted = weight * above;
  sums.weight += weight;
  sums.first += weighted;
  sums.second += weighted * above;
}

MAGLEV_HD ShiftedSums& operator+=(ShiftedSums& all, const ShiftedSums& part) {
  all.weight += part.weight;
  all.first += part.first;
  all.second += part.second;
  return all;
}

}  // namespace maglev
