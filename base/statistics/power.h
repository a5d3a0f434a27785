#pragma once
// How many seeds a comparison needs: power of Welch's two-sided t-test of two samples whose
// populations have like deviations, by the noncentral t.

#include <cstdint>
#include <functional>

namespace maglev {

/// Values of each of two samples, two at least.
struct Sizes {
  int64_t first, second;
};
/// By how much the error of a difference of means is that of one value.
double difference_error(Sizes n);
/// Welch and Satterthwaite's degrees of freedom where both samples show one deviation: 2n - 2 of
/// equal sizes, else between the smaller sample's n - 1 and n1 + n2 - 2.
double degrees_of(Sizes n);

/// The chance that a true difference of `effect` deviations is found.
double power_of(double effect, Sizes n, double alpha = 0.05);
/// The same with n >= 2 values each.
double power_of(double effect, int64_t n, double alpha = 0.05);
/// Fewest values each with which it is at least `power`, where n values are tested at alpha(n); 2
/// at least, a million at most. `effect` is not 0, power in (0, 1).
int64_t needed_values(double effect, double power, const std::function<double(int64_t)>& alpha);
/// The same at one alpha.
int64_t needed_values(double effect, double power = 0.8, double alpha = 0.05);
/// The smallest effect > 0 that is found with that power.
double detectable_effect(Sizes n, double power = 0.8, double alpha = 0.05);
/// The same with n >= 2 values each.
double detectable_effect(int64_t n, double power = 0.8, double alpha = 0.05);

}  // namespace maglev
