#pragma once
// What several seeds of one experiment came to, as a figure with its uncertainty.

#include <cstdint>
#include <span>

namespace maglev::verbs::train {

/// Of a normal sample: where the mean of further seeds would lie with 95 % confidence.
struct Spread {
  double mean, deviation;  ///< deviation: n - 1 in the denominator; NaN for fewer than two values
  double low, high;        ///< mean -+ t * deviation / sqrt(n); NaN for fewer than two values
};
/// At least one value, all finite.
Spread spread_of(std::span<const double> values);

/// The 97.5 % quantile of Student's t with `degrees` >= 1 degrees of freedom, to 4 digits.
double t_quantile(int64_t degrees);

}  // namespace maglev::verbs::train
