#pragma once
// A Gaussian policy squashed by tanh (Haarnoja et al., "Soft actor-critic", 2018) on a panel
// (base/simd/panel.h): actions, entropies, and the gradient of both.

#include <cstdint>

namespace maglev {

/// Deviation: exp(low + (high - low) (tanh(spread) + 1) / 2).
struct LogStdBounds {
  float low = -10, high = 2;
};

/// action = tanh(mean + std * noise).
struct SquashedGaussian {
  LogStdBounds bounds;
  int64_t actions;     ///< A
  const float* head;   ///< [2A][stride]: means, then spreads
  const float* noise;  ///< [A][stride], standard normals; null: the mean
  float* action;       ///< [A][stride], written
  /// [stride], minus the action's log-probability, written; or null.
  float* entropy;
  /// [stride], minus A times the Gaussian's log-probability, written; or null. What the quotient of
  /// both probabilities in TD-MPC2's code comes to.
  float* scaled_entropy;
  int64_t stride;
};
void squashed_gaussian_cpu(const SquashedGaussian& args);

/// Gradient with respect to the head.
struct SquashedGaussianGrad {
  LogStdBounds bounds;
  int64_t actions;
  const float *head, *noise, *action;  ///< of the forward pass
  const float* d_action;               ///< [A][stride]
  float d_scaled_entropy;              ///< d loss / d scaled_entropy, of every row
  float* d_head;                       ///< [2A][stride], written; 0 in columns from `rows` on
  int64_t stride, rows;
};
void squashed_gaussian_grad_cpu(const SquashedGaussianGrad& args);

}  // namespace maglev
