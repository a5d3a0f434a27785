#pragma once
// Clip and Adam over one flat parameter buffer, without reading a value back: the norm, the clip
// factor, the learning rate and the decision to skip all stay on the device.

#include <ATen/core/Tensor.h>

#include "engine/nn/flat_params.h"
#include "engine/train/state.h"
#include "kernels/adam/adam_op.h"

namespace maglev {

struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-5;
  double weight_decay = 0;     ///< decoupled (AdamW) when above 0
  double max_grad_norm = 0.5;  ///< L2; 0: no clipping
  bool clip_per_module =
      false;  ///< each direct child of the module by itself instead of all together
};

/// Adam (Kingma and Ba, 2015), AdamW (Loshchilov and Hutter, 2019) with gradient clipping by norm.
class FlatAdam {
 public:
  FlatAdam(const FlatParams& params, AdamOptions options);

  /// One step from `grad` [P] f32, which is clipped in place, or lanes [lanes, P], of which the
  /// first becomes their clipped sum. `lr` is a device scalar f32. Where `skip` (device scalar f32)
  /// is not 0, or a gradient is not finite, nothing changes.
  ///   returns the gradient's norm before clipping, device scalar f32, valid until the next step
  at::Tensor step(at::Tensor& grad, const at::Tensor& lr, const at::Tensor& skip);

  /// The same step for a caller with threads of its own, who runs its chunks (kernels/adam/adam.h)
  /// on the CPU. `grad` is lanes [lanes, P].
  AdamArgs args(const at::Tensor& grad, const at::Tensor& lr, const at::Tensor& skip) const {
    return adam_args(tensors_, numbers_, grad, lr, skip);
  }

  /// 1 where the last step was taken, 0 where it was left out. Device scalar f32.
  at::Tensor applied() const { return tensors_.step.select(0, 1); }

  /// Times a gradient was not finite and the step was left out. Device scalar f32.
  const at::Tensor& nonfinite() const { return tensors_.nonfinite; }

  /// First and second moments [P] f32, for layers that rescale their weights (PopArt).
  at::Tensor& first_moment() { return tensors_.first; }
  at::Tensor& second_moment() { return tensors_.second; }

  void visit_state(StateVisitor& visitor);

 private:
  AdamNumbers numbers_;
  AdamTensors tensors_;
};

}  // namespace maglev
