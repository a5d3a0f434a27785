#pragma once
// LaProp (Ziyin, Wang and Ueda, "LaProp: separating momentum and adaptivity in Adam", 2020) behind
// adaptive gradient clipping (Brock et al., "High-performance large-scale image recognition without
// normalization", 2021), as Dreamer V3 has them: gradients are clipped tensor by tensor, then
// divided by their running size, then averaged.

#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/nn/optimizer.h"
#include "kernels/laprop/laprop_op.h"

namespace maglev {

struct LaPropOptions {
  double beta1 = 0.9;    ///< of the momentum
  double beta2 = 0.999;  ///< of the squares
  double eps = 1e-20;    ///< added to their root
  double clip = 0.3;     ///< most a gradient may be of its tensor's L2 norm; 0: no clipping
  double least = 1e-3;   ///< what the norm of a tensor counts as at least
  bool fused = true;     ///< by kernels/laprop; false: its reference in plain ATen
};

/// Without reading a value back. Graph-safe.
class FlatLaProp : public Optimizer {
 public:
  FlatLaProp(const FlatParams& params, LaPropOptions options);

  void reduce(const at::Tensor& grads, const at::Tensor& unscale, ThreadPool& pool) override;
  void clip(const at::Tensor& skip) override;
  void step(const at::Tensor& lr, ThreadPool& pool) override;
  const at::Tensor& norm() const override { return norm_; }
  const at::Tensor& nonfinite() const override { return tensors_.nonfinite; }
  /// Of the gradients divided by their sizes.
  at::Tensor& first_moment() override { return tensors_.momentum; }
  at::Tensor& second_moment() override { return tensors_.squares; }
  void visit_state(StateVisitor& visitor) override;

  /// The gradient as the last stage left it, [P].
  at::Tensor gradient() const { return lanes_[0]; }

 private:
  bool fused_;
  std::vector<FlatRange> ranges_;
  LaPropNumbers numbers_;
  LaPropTensors tensors_;
  LaPropArgs args_;   ///< over the tensors, and of the step that is under way
  at::Tensor lanes_;  ///< [lanes, P], gradients of the step that is under way, the first their sum
  at::Tensor norm_;
};

}  // namespace maglev
