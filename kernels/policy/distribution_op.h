#pragma once
// Policies' distributions over tagged actions: categorical heads with masks, or diagonal Gaussians.
// Acting and learning call the same functions, so a stored log-probability equals the recomputed
// one to the bit while weights stand still.

#include <ATen/core/Tensor.h>

#include "base/env/act_key.h"
#include "base/env/spec.h"

namespace maglev {

/// Parameters of the distribution of B rows.
struct DistParams {
  at::Tensor logits;   ///< [B, categories], or the mean [B, dims]
  at::Tensor log_std;  ///< [dims]; undefined for categorical
  at::Tensor
      /// [B, categories] u8; undefined: all allowed. A row must allow something in every head.
      mask;
};

/// Writes action [B, dims] (i32 or f32); returns log-probability [B] f32. Rows' numbers come from
/// `key` and first_row; key.temperature changes what is drawn, the log-probability stays the
/// policy's own.
at::Tensor sample(const ActionSpec& spec, const DistParams& params, ActMode mode, const ActKey& key,
                  int64_t first_row, at::Tensor& action);

/// The action [B, dims] of mode mean: the likeliest category of each head (i32), or the mean (f32).
at::Tensor most_likely(const ActionSpec& spec, const DistParams& params);

struct LogProb {
  at::Tensor log_prob;  ///< [B] f32, summed over heads or dimensions
  at::Tensor entropy;   ///< [B] f32, likewise; an excluded category counts 0
};
LogProb log_prob(const ActionSpec& spec, const DistParams& params, const at::Tensor& action);

/// Log-probabilities [B, categories] f32 of each category within its head; -inf where the mask
/// excludes it. Categorical heads.
at::Tensor category_log_probs(const ActionSpec& spec, const DistParams& params);

}  // namespace maglev
