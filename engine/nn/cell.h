#pragma once
// What a network remembers between time steps: a recurrent cell between a trunk and its heads.

#include <array>
#include <cstdint>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "engine/nn/actor_critic.h"
#include "engine/nn/init.h"

namespace maglev {

enum class CellKind {
  gru,     ///< gates of the input and of what is remembered (Cho et al., 2014; torch's GRU)
  mingru,  ///< gates of the input alone (Feng et al., "Were RNNs all we needed?", 2024)
};
constexpr auto names_of(CellKind) { return std::array{"gru", "mingru"}; }

class Cell : public torch::nn::Module {
 public:
  /// From `inputs` numbers of a step to `units` that are remembered. Weights are orthogonal.
  Cell(CellKind kind, int64_t inputs, int64_t units, Initializer& init);

  /// x [L * B, inputs], time first; h [B, units] f32 before the first step; keep [L, B, 1] f32: 0
  /// where a step forgets what was before it, else 1. What is remembered behind each step,
  /// [L * B, units] f32. The input's products are of all steps at once, in what an Autocast asks
  /// for; what is remembered stays f32.
  at::Tensor forward(const at::Tensor& x, at::Tensor h, const at::Tensor& keep) const;

  int64_t units() const { return units_; }
  RowCost cost() const;

 private:
  at::Tensor next_gru(const at::Tensor& of_input, const at::Tensor& h) const;
  at::Tensor next_mingru(const at::Tensor& of_input, const at::Tensor& h) const;

  CellKind kind_;
  int64_t units_;
  at::Tensor input_weight_, input_bias_;    ///< [parts * units, inputs], [parts * units]
  at::Tensor memory_weight_, memory_bias_;  ///< a GRU's: [3 * units, units], [3 * units]
};

}  // namespace maglev
