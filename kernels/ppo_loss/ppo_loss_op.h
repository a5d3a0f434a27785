#pragma once
#include <ATen/core/Tensor.h>

#include "base/env/spec.h"
#include "kernels/ppo_loss/ppo_loss.h"

namespace maglev {

/// What the loss of B rows of a minibatch reads besides what the network gave. Columns are those of
/// the whole rollout, flattened to M rows, contiguous, on one device; `index` picks B of them.
struct PpoLossBatch {
  at::Tensor index;                                   ///< [B] i64
  at::Tensor action;                                  ///< [M, dims] i32 or f32
  at::Tensor old_log_prob, advantage, target, valid;  ///< [M] f32
  at::Tensor old_value;  ///< [M] f32; may be undefined where value_clip is 0
  at::Tensor mask;       ///< [M, categories] u8; undefined: all allowed
  at::Tensor scalars;    ///< [8] f32, a PpoLossScalars
};

/// PPO's loss, differentiable with respect to logits (or mean) [B, categories or dims], log_std
/// [dims] (undefined for categorical) and value [B], all f32. Adds the loss's figures to `figures`
/// [kPpoFigures] f32. Log-probabilities are those of policy_sample, to the bit.
///   returns the total, scalar f32
at::Tensor ppo_loss(const ActionSpec& spec, const at::Tensor& logits, const at::Tensor& log_std,
                    const at::Tensor& value, const PpoLossBatch& batch, at::Tensor& figures);

/// The same in ATen, also in f64; figures [kPpoFigures], the total last.
at::Tensor ppo_loss_reference(const ActionSpec& spec, const at::Tensor& logits,
                              const at::Tensor& log_std, const at::Tensor& value,
                              const PpoLossBatch& batch);

}  // namespace maglev
