#pragma once
// PPO's loss as the paper has it, in plain ATen: what the fused loss is held to, and what
// ppo.fused=false learns by.

#include <ATen/core/Tensor.h>

#include "base/env/spec.h"
#include "kernels/ppo_loss/ppo_loss.h"

namespace maglev {

/// What the loss reads of some rows besides what the network gave; contiguous, on one device.
struct PpoLossRows {
  at::Tensor action;                           ///< [rows, dims] i32 or f32
  at::Tensor old_log_prob, advantage, target;  ///< [rows] f32; the target is the value's
  at::Tensor old_value;  ///< [rows] f32; may be undefined where values are not clipped
  at::Tensor valid;      ///< [rows] f32, 0 or 1: whether a row counts
  at::Tensor mask;       ///< [rows, categories] u8; undefined: all allowed
};

/// What weighs the loss's terms.
struct PpoCoefficients {
  at::Tensor clip, value_clip, entropy_coef;  ///< scalars f32, on the rows' device
  PpoLossSettings settings;
};

/// Each a scalar, a mean over the rows that count; see PpoFigure.
struct PpoLossTerms {
  at::Tensor policy, value, entropy, approx_kl, clip_fraction, ratio_deviation, total;

  /// [kPpoFigures], in the order of PpoFigure.
  at::Tensor figures() const;
};

/// PPO's loss of B rows whose advantages are normalised, differentiable with respect to logits (or
/// mean) [B, categories or dims], log_std [dims] (undefined for categorical) and value [B], f32 or
/// f64. Graph-safe.
PpoLossTerms ppo_loss_reference(const ActionSpec& spec, const at::Tensor& logits,
                                const at::Tensor& log_std, const at::Tensor& value,
                                const PpoLossRows& rows, const PpoCoefficients& coefficients);

}  // namespace maglev
