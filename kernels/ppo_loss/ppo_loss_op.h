#pragma once
#include <ATen/core/Tensor.h>

#include "base/env/spec.h"
#include "kernels/ppo_loss/ppo_loss.h"
#include "kernels/ppo_loss/ppo_loss_reference_op.h"

namespace maglev {

/// What the loss of B rows of a minibatch reads besides what the network gave.
struct PpoLossBatch {
  at::Tensor index;     ///< [B] i64, the rows of `rollout` it is about
  PpoLossRows rollout;  ///< M rows; advantages before normalisation
  PpoLossSettings settings;
  at::Tensor scalars;  ///< [6] f32, a PpoLossScalars
};

/// The scalars as PpoLossBatch keeps them, on the CPU.
at::Tensor packed(const PpoLossScalars& scalars);

/// ppo_loss_reference in one pass, differentiable with respect to logits (or mean) [B, categories
/// or dims], log_std [dims] (undefined for categorical) and value [B], all f32. Adds the loss's
/// figures to `figures` [kPpoFigures] f32 or f64. Log-probabilities are those of policy_sample, to
/// the bit.
///   returns the total, scalar f32
at::Tensor ppo_loss(const ActionSpec& spec, const at::Tensor& logits, const at::Tensor& log_std,
                    const at::Tensor& value, const PpoLossBatch& batch, at::Tensor& figures);

}  // namespace maglev
