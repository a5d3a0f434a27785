#pragma once
// What a network remembers between time steps: a recurrent cell between a trunk and its heads.

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "engine/nn/actor_critic.h"
#include "engine/nn/init.h"

namespace maglev {

/// A gated recurrent unit (Cho et al., 2014) as Dreamer V3 has it: one reset gate over a candidate of
/// what is seen and remembered, and an update that begins at sigmoid(-1), so that much is kept.
class Cell : public torch::nn::Module {
 public:
  /// From `inputs` numbers of a step to `units` that are remembered. Weights are orthogonal.
  /// `fused`: by kernels/gru_scan, else in ATen.
  Cell(int64_t inputs, int64_t units, bool fused, Initializer& init);

  /// x [L * B, inputs], time first; h [B, units] f32 before the first step; keep [L, B] f32: 0 where
  /// a step forgets what was before it, else 1. What is remembered behind each step, [L * B, units]
  /// f32. The input's products are of all steps at once, in what an Autocast asks for; what is
  /// remembered stays f32.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& h, const at::Tensor& keep) const;

  int64_t units() const { return units_; }
  /// Behind `trunk`; none where it is not fused.
  std::optional<DenseCell> dense(std::vector<DenseTensors> trunk) const;
  RowCost cost() const;

 private:
  int64_t units_;
  bool fused_;
  at::Tensor input_weight_, bias_;  ///< [3 * units, inputs], [3 * units]: reset, candidate, update
  at::Tensor memory_weight_;        ///< [3 * units, units]
};

}  // namespace maglev
