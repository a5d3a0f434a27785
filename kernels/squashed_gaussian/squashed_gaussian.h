#pragma once
// A Gaussian policy squashed by tanh (Haarnoja et al., "Soft actor-critic", 2018) on a panel
// (base/simd/panel.h) or on rows: actions, entropies, and the gradient of both.

#include <array>
#include <cmath>
#include <cstdint>

#include "base/core/hd.h"

namespace maglev {

/// Deviation: exp(low + (high - low) (tanh(spread) + 1) / 2).
struct LogStdBounds {
  float low = -10, high = 2;
};

/// Whose entropy scaled_entropy is, times A. TD-MPC2's code has the Gaussian's: what the quotient of
/// both probabilities there comes to. It does not see how far tanh is driven, so that means go where
/// that is flat and no gradient comes back. The action's holds them back: its gradient with respect
/// to what is squashed is -2 action.
enum class EntropyOf { gaussian, action };
constexpr auto names_of(EntropyOf) { return std::array{"gaussian", "action"}; }

/// action = tanh(mean + std * noise).
struct SquashedGaussian {
  LogStdBounds bounds;
  EntropyOf entropy_of = EntropyOf::gaussian;
  int64_t actions;     ///< A
  const float* head;   ///< [2A][stride]: means, then spreads
  const float* noise;  ///< [A][stride], standard normals; null: the mean
  float* action;       ///< [A][stride], written
  /// [stride], minus the action's log-probability, written; or null. As in TD-MPC2's code, where
  /// tanh has a slope of 1e-6 at least, unless the action's is what counts.
  float* entropy;
  /// [stride], A times an entropy of one draw: minus the log-probability of the Gaussian, or of the
  /// action. Written; or null.
  float* scaled_entropy;
  int64_t stride;
};
void squashed_gaussian_cpu(const SquashedGaussian& args);

/// Gradient with respect to the head.
struct SquashedGaussianGrad {
  LogStdBounds bounds;
  EntropyOf entropy_of = EntropyOf::gaussian;
  int64_t actions;
  const float *head, *noise, *action;  ///< of the forward pass
  const float* d_action;               ///< [A][stride]
  float d_scaled_entropy;              ///< d loss / d scaled_entropy, of every row
  float* d_head;                       ///< [2A][stride], written; 0 in columns from `rows` on
  int64_t stride, rows;
};
void squashed_gaussian_grad_cpu(const SquashedGaussianGrad& args);

/// The same of rows that lie one behind the other.
struct SquashedGaussianRows {
  LogStdBounds bounds;
  EntropyOf entropy_of = EntropyOf::gaussian;
  int64_t rows, actions;
  const float* head;                ///< [rows][2A]: means, then spreads
  const float* noise;               ///< [rows][A]
  float* action;                    ///< [rows][A], written
  float *entropy, *scaled_entropy;  ///< [rows], written
};
/// Gradient with respect to the head.
struct SquashedGaussianRowsGrad {
  LogStdBounds bounds;
  EntropyOf entropy_of = EntropyOf::gaussian;
  int64_t rows, actions;
  const float *head, *noise, *action;  ///< of the forward pass
  const float* d_action;               ///< [rows][A]
  const float* d_scaled_entropy;       ///< [cycle]: row r takes r % cycle, times `scale`
  int64_t cycle;
  float scale;
  float* d_head;  ///< [rows][2A], written
};
void squashed_gaussian_rows_cpu(const SquashedGaussianRows& args);
void squashed_gaussian_rows_grad_cpu(const SquashedGaussianRowsGrad& args);
/// On `stream` (a cudaStream_t); return a cudaError_t. Only in builds with device code.
int squashed_gaussian_rows_cuda(const SquashedGaussianRows& args, void* stream);
int squashed_gaussian_rows_grad_cuda(const SquashedGaussianRowsGrad& args, void* stream);

MAGLEV_HD float log_std_of_spread(const LogStdBounds& b, float squashed) {
  return b.low + 0.5f * (b.high - b.low) * (squashed + 1.f);
}

/// log(1 - tanh(x)^2), also where tanh is 1 to the last bit.
MAGLEV_HD float log_slope_of_tanh(float x) {
  const float far = fabsf(x);
  return 2.f * (0.693147181f - far - log1pf(expf(-2.f * far)));
}

MAGLEV_HD void squashed_row(const SquashedGaussianRows& a, int64_t r) {
  constexpr float kHalfLog2Pi = 0.918938533f;
  const bool of_action = a.entropy_of == EntropyOf::action;
  float log_prob = 0, squash = 0;
  for (int64_t i = 0; i < a.actions; ++i) {
    const float mean = a.head[r * 2 * a.actions + i];
    const float log_std = log_std_of_spread(a.bounds, tanhf(a.head[(r * 2 + 1) * a.actions + i]));
    const float noise = a.noise[r * a.actions + i], drawn = mean + noise * expf(log_std);
    const float action = tanhf(drawn);
    a.action[r * a.actions + i] = action;
    log_prob -= 0.5f * noise * noise + log_std + kHalfLog2Pi;
    squash += of_action ? log_slope_of_tanh(drawn)
                        : logf(fmaxf((1.f - action) * (1.f + action), 0.f) + 1e-6f);
  }
  a.entropy[r] = squash - log_prob;
  a.scaled_entropy[r] = float(a.actions) * (of_action ? squash - log_prob : -log_prob);
}

MAGLEV_HD void squashed_row_grad(const SquashedGaussianRowsGrad& a, int64_t r) {
  const float from_entropy = a.scale * a.d_scaled_entropy[r % a.cycle] * float(a.actions);
  const float from_slope = a.entropy_of == EntropyOf::action ? -2.f * from_entropy : 0.f;
  for (int64_t i = 0; i < a.actions; ++i) {
    const int64_t place = r * a.actions + i, of_mean = r * 2 * a.actions + i;
    const int64_t of_spread = of_mean + a.actions;
    const float action = a.action[place], squashed = tanhf(a.head[of_spread]);
    const float d_mean = a.d_action[place] * (1.f - action * action) + from_slope * action;
    const float d_log_std =
        d_mean * a.noise[place] * expf(log_std_of_spread(a.bounds, squashed)) + from_entropy;
    a.d_head[of_mean] = d_mean;
    a.d_head[of_spread] =
        d_log_std * 0.5f * (a.bounds.high - a.bounds.low) * (1.f - squashed * squashed);
  }
}

}  // namespace maglev
