#pragma once
// PPO's loss (Schulman et al., "Proximal policy optimization algorithms", 2017) over one panel of a
// minibatch and its gradient with respect to what the network gave, in one pass without autograd.

#include <cstdint>

#include "base/simd/panel.h"

namespace maglev {

/// Settings of the loss, the same for a whole run. The host has them.
struct PpoLossSettings {
  float value_coef = 0.5f;
  bool clips_value = false;
  bool value_clip_max = false;  ///< the larger of both errors counts, else the clipped one
};

/// Scalars of a minibatch; on CUDA in device memory, so that schedules need no host. As a tensor:
/// [6] f32 in this order.
struct PpoLossScalars {
  float advantage_mean;   ///< 0 where advantages are not normalised here
  float advantage_scale;  ///< 1 / (std + 1e-8), or 1
  float inverse_count;    ///< 1 / valid rows of the whole minibatch: shards' sums are its means;
                          ///< 0: there is none
  float clip;             ///< of the ratio, at least 0
  float value_clip;       ///< how far values move, in the value head's units, at least 0
  float entropy_coef;
};
static_assert(sizeof(PpoLossScalars) == 6 * sizeof(float));

/// What the loss adds up over valid rows, each divided by the minibatch's count.
enum PpoFigure : int {
  kPpoPolicy,  ///< clipped surrogate
  kPpoValue,   ///< squared error, before value_coef
  kPpoEntropy,
  kPpoApproxKl,        ///< ratio - 1 - log ratio (Schulman, "Approximating KL divergence", 2020)
  kPpoClipFraction,    ///< rows whose ratio is further than clip from 1
  kPpoRatioDeviation,  ///< |ratio - 1|
  kPpoTotal,           ///< policy + value_coef value - entropy_coef entropy
  kPpoFigures
};

/// Row r of the panel is row index[r] of the rollout's columns, which have M rows. Where valid is 0
/// a row adds nothing. Gradients are autograd's of the ATen expression: at ties of a minimum or
/// maximum each side gets half.
struct PpoLossArgs {
  PolicyPanel policy;         ///< of the panel's rows; its mask is [M, mask_width]
  const float* value;         ///< [stride of the panel], in the value head's normalised units
  const int64_t* index;       ///< [rows], each in [0, M)
  const int32_t* action_i32;  ///< [M, dims], with heads
  const float* action_f32;    ///< [M, dims], Gaussian
  const float* old_log_prob;  ///< [M]
  const float* advantage;     ///< [M], before normalisation
  const float* target;        ///< [M], of the value
  const float* old_value;     ///< [M]; null where values are not clipped
  const float* valid;         ///< [M], 0 or 1
  PpoLossSettings settings;
  const PpoLossScalars* scalars;
  float* d_logits;  ///< [categories or dims][stride], overwritten; 0 in padding and invalid columns
  float* d_value;   ///< [stride], likewise
  float* d_log_std;  ///< [dims], added to; Gaussian
  double* figures;   ///< [kPpoFigures], added to
};
void ppo_loss_cpu(const PpoLossArgs& args);

/// Blocks of rows whose sums are added in order on a device.
constexpr int64_t kPpoDeviceBlock = 256;

/// On `stream` (a cudaStream_t) for any number of rows; pointers are to device memory, but
/// policy.heads is in the host's. `partial` [blocks of kPpoDeviceBlock rows][kPpoTotal + dims] f64
/// is scratch. Returns a cudaError_t. Only in builds with device code.
int ppo_loss_cuda(const PpoLossArgs& args, double* partial, void* stream);

}  // namespace maglev
