#pragma once
// Running mean and variance as part of the policy: saved, restored, evaluated and exported with it.

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "engine/group/group.h"
#include "kernels/normalize/normalize_op.h"

namespace maglev {

/// Standardises vectors [.., D] f32 by statistics of what was seen. Statistics change only in
/// `absorb`, so acting and learning within one iteration see the same numbers.
class RunningNorm : public torch::nn::Module {
 public:
  explicit RunningNorm(int64_t D, double clip = 10.0);

  /// clamp((x - mean) / sqrt(var + 1e-8), -clip, clip).
  at::Tensor forward(const at::Tensor& x) const;
  /// Merges rows [M, D] into the statistics (Chan, Golub and LeVeque, 1983), each with weight [M]
  /// where one is given (0 leaves it out), and of `group` the rows of all processes. Population
  /// variance. Sums run in f64.
  void absorb(const at::Tensor& rows, const at::Tensor& weight = {}, Group* group = nullptr);

  const at::Tensor& mean() const { return mean_; }  ///< [D] f32
  const at::Tensor& var() const { return var_; }    ///< [D] f32
  double clip() const { return clip_; }
  /// The statistics themselves, for kernels that change them.
  RunningMoments moments() const { return {mean_, var_, count_}; }

 private:
  void merge(const RunningMoments& own, Group& group);

  double clip_;
  at::Tensor mean_, var_, count_;  ///< [D], [D], [] f32, f32, f64
  at::Tensor scratch_;             ///< absorb_scratch, once rows came
};

/// Scales rewards by the standard deviation of the discounted return, without moving their mean
/// (Engstrom et al., "Implementation matters in deep policy gradients", 2020).
class RewardNorm : public torch::nn::Module {
 public:
  RewardNorm(int64_t rows, double gamma, double clip = 10.0);

  /// reward [T, rows] f32 -> scaled copy; the running returns and their statistics take in this
  /// rollout first.
  ///   done [T, rows] u8: the running return starts again behind it
  ///   valid [T, rows] f32: 0 leaves a step that only reset out of the statistics
  at::Tensor absorb(const at::Tensor& reward, const at::Tensor& done, const at::Tensor& valid);

 private:
  double gamma_, clip_;
  at::Tensor running_;  ///< [rows] f32, discounted return so far
  at::Tensor scratch_;  ///< returns_scratch, once rewards came
  std::shared_ptr<RunningNorm> stats_;
};

}  // namespace maglev
