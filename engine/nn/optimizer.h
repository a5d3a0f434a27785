#pragma once
// Clip and Adam over one flat parameter buffer, without reading a value back: the norm, the clip
// factor, the learning rate and the decision to skip all stay on the device.

#include <vector>

#include <ATen/core/Tensor.h>

#include "base/core/thread_pool.h"
#include "engine/data/state.h"
#include "engine/nn/flat_params.h"
#include "kernels/adam/adam_op.h"

namespace maglev {

struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-5;
  double weight_decay = 0;     ///< decoupled (AdamW) when above 0
  double max_grad_norm = 0.5;  ///< L2; 0: no clipping
  bool clip_per_module =
      false;          ///< each direct child of the module by itself instead of all together
  bool fused = true;  ///< by kernels/adam; false: its reference in plain ATen
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// One step from gradient lanes `grads` [lanes, P] f32, or one gradient [P]; the first lane
  /// becomes their clipped sum. `lr` is a device scalar f32. Where `skip` (device scalar f32) is
  /// not 0, or a gradient is not finite, nothing changes. On CPU the pool's threads share it.
  virtual void step(at::Tensor& grads, const at::Tensor& lr, const at::Tensor& skip,
                    ThreadPool& pool) = 0;

  /// The last gradient's norm before clipping, device scalar f32.
  virtual const at::Tensor& norm() const = 0;
  /// Times a gradient was not finite and the step was left out. Device scalar f32.
  virtual const at::Tensor& nonfinite() const = 0;
  /// First and second moments [P] f32, for layers that rescale their weights (PopArt).
  virtual at::Tensor& first_moment() = 0;
  virtual at::Tensor& second_moment() = 0;

  virtual void visit_state(StateVisitor& visitor) = 0;
};

/// Adam (Kingma and Ba, 2015), AdamW (Loshchilov and Hutter, 2019) with gradient clipping by norm.
class FlatAdam : public Optimizer {
 public:
  FlatAdam(const FlatParams& params, AdamOptions options);
  /// Over a part of a flat buffer, `data` [P] f32, whose groups, in order and without gaps, are
  /// clipped together and have their learning rates multiplied by `rates`.
  FlatAdam(const at::Tensor& data, const std::vector<AdamGroup>& groups,
           const std::vector<float>& rates, AdamOptions options);

  void step(at::Tensor& grads, const at::Tensor& lr, const at::Tensor& skip,
            ThreadPool& pool) override;
  const at::Tensor& norm() const override { return norm_; }
  const at::Tensor& nonfinite() const override { return tensors_.nonfinite; }
  at::Tensor& first_moment() override { return tensors_.first; }
  at::Tensor& second_moment() override { return tensors_.second; }
  void visit_state(StateVisitor& visitor) override;

  /// Steps taken. Device scalar f32.
  at::Tensor& steps() { return tensors_.steps; }
  /// 1 where the last step was taken, 0 where it was left out. Device scalar f32.
  at::Tensor applied() const { return tensors_.step.select(0, 1); }

 private:
  bool fused_;
  AdamNumbers numbers_;
  AdamTensors tensors_;
  at::Tensor norm_;
};

}  // namespace maglev
