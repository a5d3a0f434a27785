#pragma once
// The distributions that tests of means are made of. Probabilities to 1e-10, quantiles to 1e-9 of
// themselves (held to SciPy's).

namespace maglev {

/// P(Z <= x) of a standard normal.
double normal_cdf(double x);
/// Its inverse, 0 < p < 1.
double normal_quantile(double p);

/// P(T <= t) of Student's t with `degrees` > 0 degrees of freedom, whole or not.
double t_cdf(double t, double degrees);
/// Its inverse, 0 < p < 1.
double t_quantile(double p, double degrees);

/// P(T <= t) of the noncentral t: (Z + shift) / sqrt(chi2 / degrees).
double noncentral_t_cdf(double t, double degrees, double shift);

}  // namespace maglev
