#pragma once
// LaProp (Ziyin, Wang and Ueda, "LaProp: separating momentum and adaptivity in Adam", 2020) behind
// adaptive gradient clipping (Brock et al., "High-performance large-scale image recognition without
// normalization", 2021), as Dreamer V3 has them: gradients are clipped tensor by tensor, then divided
// by their running size, then averaged.

#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/nn/optimizer.h"

namespace maglev {

struct LaPropOptions {
  double beta1 = 0.9;    ///< of the momentum
  double beta2 = 0.999;  ///< of the squares
  double eps = 1e-20;    ///< added to their root
  double clip = 0.3;     ///< most a gradient may be of its tensor's L2 norm; 0: no clipping
  double least = 1e-3;   ///< what the norm of a tensor counts as at least
};

/// In plain ATen, without reading a value back. Graph-safe.
class FlatLaProp : public Optimizer {
 public:
  FlatLaProp(const FlatParams& params, LaPropOptions options);

  void reduce(const at::Tensor& grads, const at::Tensor& unscale, ThreadPool& pool) override;
  void clip(const at::Tensor& skip) override;
  void step(const at::Tensor& lr, ThreadPool& pool) override;
  const at::Tensor& norm() const override { return norm_; }
  const at::Tensor& nonfinite() const override { return nonfinite_; }
  /// Of the gradients divided by their sizes.
  at::Tensor& first_moment() override { return momentum_; }
  at::Tensor& second_moment() override { return squares_; }
  void visit_state(StateVisitor& visitor) override;

 private:
  LaPropOptions options_;
  std::vector<FlatRange> ranges_;
  at::Tensor data_, momentum_, squares_;  ///< [P]
  at::Tensor sum_;                        ///< [P], the gradient of the step that is under way
  at::Tensor steps_, nonfinite_, norm_;   ///< scalars f32
  at::Tensor applied_;                    ///< scalar bool: the step under way will be taken
};

}  // namespace maglev
