#pragma once
// One step of the recurrent state on rows, without autograd: what the scan over replayed steps and
// the dream share. In blocks of the state products are batches, [blocks, rows, width]; elsewhere rows
// are whole.

#include <ATen/core/Tensor.h>

#include "algos/dreamer/fused/weights.h"
#include "algos/dreamer/model_shape.h"
#include "algos/dreamer/networks.h"

namespace maglev::dreamer {

/// The weights by which the three inputs enter each block, side by side: one product for all blocks.
/// Packed once an update, read by all shards.
class MixInputs {
 public:
  explicit MixInputs(const ModelShape& shape, const Networks& networks);
  void pack();

  at::Tensor states;  ///< [2 * hidden, D], of what h and z give
  at::Tensor action;  ///< [hidden, D]

 private:
  at::Tensor weight_, packed_;  ///< [blocks, 3 * hidden, width], its view of [3 * hidden, D]
};

/// Where a step's products lie. What a gradient needs of them is kept until then.
struct CoreStep {
  at::Tensor h, z;                  ///< [R, D], [R, S * C]: the states before
  at::Tensor h_blocks;              ///< h as [blocks, R, width]
  at::Tensor pre_deter, pre_stoch;  ///< [R, hidden]
  at::Tensor deter, stoch, states;  ///< [R, hidden] twice, side by side in [R, 2 * hidden]
  at::Tensor inverse_deter, inverse_stoch, inverse_mixed;  ///< [R]
  at::Tensor mixed;   ///< [R, D]; begins as what the action adds
  at::Tensor block;   ///< [blocks, R, width] scratch
  at::Tensor active;  ///< [blocks, R, width]
  at::Tensor gates;   ///< [blocks, R, 3 * width]
  at::Tensor next;    ///< [R, D], the state behind
};

/// The action's branch of some rows, whose scratch it needs.
struct ActionStep {
  at::Tensor bounded;               ///< [R, A], within [-1, 1]
  at::Tensor pre, active, inverse;  ///< [R, hidden] twice, [R]
};

class Core {
 public:
  /// `networks` with bound gradients.
  Core(const ModelShape& shape, const Networks& networks, const MixInputs& mix, WeightRows& rows);

  /// What actions add to `mixed` [R, D].
  void add_action(ActionStep& step, at::Tensor& mixed) const;
  void advance(CoreStep& step) const;

  int64_t blocks, width;
  DenseWeights from_deter, from_stoch, from_action;
  NormWeights deter_norm, stoch_norm, action_norm, mix_norm;
  Weight mix, mix_bias, gates, gates_bias;
  at::Tensor mix_blocks, mix_blocks_back;       ///< [blocks, width, width], of h in its block
  at::Tensor gates_forward, gates_back;         ///< [blocks, width, 3 * width] and its transposes
  at::Tensor mix_states_back, mix_action_back;  ///< transposes of what the inputs mix in
  const MixInputs* mix_inputs;
};

}  // namespace maglev::dreamer
