#pragma once
// A gradient's way into one flat parameter buffer, without reading a value back: the norm, the clip
// factor, the learning rate and the decision to skip all stay on the device.

#include <vector>

#include <ATen/core/Tensor.h>

#include "base/core/thread_pool.h"
#include "engine/data/state.h"
#include "engine/group/group.h"
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

/// Three stages a step, in this order: reduce, clip, step. Where other processes have a part in the
/// gradient, reduce_all is the first. On CPU the pool's threads share a stage; results do not
/// depend on how many.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Gradient lanes `grads` [lanes, P] f32, or one gradient [P], are added in order into the first,
  /// times `unscale` (device scalar f32, LossScale's; undefined: 1). Read until the step is done.
  virtual void reduce(const at::Tensor& grads, const at::Tensor& unscale, ThreadPool& pool) = 0;
  /// The sum's norm, and what the step will multiply it by. Where `skip` (device scalar f32) is not
  /// 0, or the gradient is not finite, the step will change nothing.
  virtual void clip(const at::Tensor& skip) = 0;
  /// `lr` is a device scalar f32. The first lane becomes the clipped gradient.
  virtual void step(const at::Tensor& lr, ThreadPool& pool) = 0;

  /// The last gradient's norm before clipping, as of clip. Device scalar f32.
  virtual const at::Tensor& norm() const = 0;
  /// Times a gradient was not finite and the step was left out. Device scalar f32.
  virtual const at::Tensor& nonfinite() const = 0;
  /// First and second moments [P] f32, for layers that rescale their weights (PopArt).
  virtual at::Tensor& first_moment() = 0;
  virtual at::Tensor& second_moment() = 0;

  virtual void visit_state(StateVisitor& visitor) = 0;
};

/// Optimizer::reduce, of the gradients of all processes of `group`; null: of this one.
void reduce_all(Optimizer& optimizer, const at::Tensor& grads, const at::Tensor& unscale,
                ThreadPool& pool, Group* group);

/// A part of a flat buffer whose groups are clipped together and learn at rates of their own.
struct AdamPart {
  int64_t begin, count;
  std::vector<AdamGroup> groups;  ///< counted from `begin`, in order and without gaps
  std::vector<float> rates;       ///< what each group's learning rate is multiplied by
};

/// Adam (Kingma and Ba, 2015), AdamW (Loshchilov and Hutter, 2019) with gradient clipping by norm.
class FlatAdam : public Optimizer {
 public:
  FlatAdam(const FlatParams& params, AdamOptions options);
  /// Over a part of the parameters.
  FlatAdam(const FlatParams& params, const AdamPart& part, AdamOptions options);

  void reduce(const at::Tensor& grads, const at::Tensor& unscale, ThreadPool& pool) override;
  void clip(const at::Tensor& skip) override;
  void step(const at::Tensor& lr, ThreadPool& pool) override;
  const at::Tensor& norm() const override { return norm_; }
  const at::Tensor& nonfinite() const override { return tensors_.nonfinite; }
  at::Tensor& first_moment() override { return tensors_.first; }
  at::Tensor& second_moment() override { return tensors_.second; }
  void visit_state(StateVisitor& visitor) override;

  /// The gradient as the last stage left it, [P].
  at::Tensor gradient() const { return lanes_[0]; }
  /// Steps taken. Device scalar f32.
  at::Tensor& steps() { return tensors_.steps; }
  /// 1 where the last step was taken, 0 where it was left out. Device scalar f32.
  at::Tensor applied() const { return tensors_.step.select(0, 1); }

 private:
  bool fused_;
  std::vector<FlatRange> ranges_;  ///< of the parameters it steps
  AdamNumbers numbers_;
  AdamTensors tensors_;
  AdamArgs args_;     ///< over the tensors, and of the step that is under way
  at::Tensor lanes_;  ///< [lanes, P], gradients of the step that is under way, the first their sum
  at::Tensor norm_;
};

}  // namespace maglev
