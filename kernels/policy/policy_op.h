#pragma once
#include "kernels/policy/distribution_op.h"

namespace maglev {

/// As sample() of kernels/policy/distribution_op.h, by the policy kernel: one pass over blocks of
/// 64 rows. The same draws; log-probabilities differ in their last digits, and those of
/// policy_log_prob and ppo_loss equal these to the bit. All tensors contiguous on one device.
at::Tensor policy_sample(const ActionSpec& spec, const DistParams& params, ActMode mode,
                         const ActKey& key, int64_t first_row, at::Tensor& action);

/// As log_prob() of kernels/policy/distribution_op.h, without gradients.
LogProb policy_log_prob(const ActionSpec& spec, const DistParams& params, const at::Tensor& action);

}  // namespace maglev
