#pragma once
// How many seeds a comparison needs: power of the two-sided t-test of two equally large samples, by
// the noncentral t.

#include <cstdint>
#include <functional>

namespace maglev {

/// The chance that a true difference of `effect` pooled deviations is found with n >= 2 values
/// each.
double power_of(double effect, int64_t n, double alpha = 0.05);
/// Fewest values each with which it is at least `power`, where n values are tested at alpha(n); 2
/// at least, a million at most. `effect` is not 0, power in (0, 1).
int64_t needed_values(double effect, double power, const std::function<double(int64_t)>& alpha);
/// The same at one alpha.
int64_t needed_values(double effect, double power = 0.8, double alpha = 0.05);
/// The smallest effect > 0 that n >= 2 values each find with that power.
double detectable_effect(int64_t n, double power = 0.8, double alpha = 0.05);

}  // namespace maglev
