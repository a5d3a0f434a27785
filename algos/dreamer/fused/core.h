#pragma once
// One step of the recurrent state on rows, without autograd: what the scan over replayed steps and
// the dream share. In blocks of the state products are batches, [blocks, rows, width]; elsewhere
// rows are whole.

#include <vector>

#include <ATen/core/Tensor.h>

#include "algos/dreamer/fused/weights.h"
#include "algos/dreamer/model_shape.h"
#include "algos/dreamer/networks.h"
#include "kernels/gru/gru_op.h"

namespace maglev::dreamer {

/// The weights by which the three inputs enter each block, side by side: one product for all
/// blocks. Packed once an update, read by all shards.
class MixInputs {
 public:
  explicit MixInputs(const ModelShape& shape, const Networks& networks);
  void pack();

  at::Tensor all;          ///< [3 * hidden, D], of what h, z and the action give
  at::Tensor states;       ///< [2 * hidden, D] of it
  at::Tensor action;       ///< [hidden, D]
  at::Tensor bias, scale;  ///< [3, hidden], of the inputs' own layers

 private:
  at::Tensor weight_, packed_;  ///< [blocks, 3 * hidden, width], its view of [3 * hidden, D]
  std::vector<at::Tensor> biases_, scales_;
};

/// Inputs of a step's blocks: hidden layers of h and z, and of the action where it is not known
/// before the loop. Side by side, k of them, and as rows of one each.
struct CoreInputs {
  CoreInputs() = default;
  CoreInputs(int64_t rows, int64_t k, int64_t hidden, const at::TensorOptions& options);
  /// Those of rows [first, first + count).
  CoreInputs rows(int64_t first, int64_t count) const;
  /// Columns of input i.
  at::Tensor column(const at::Tensor& of, int64_t i) const;

  int64_t hidden;
  at::Tensor pre, active;            ///< [R, k * hidden]
  at::Tensor pre_rows, active_rows;  ///< the same as [R * k, hidden]
  at::Tensor inverse;                ///< [R * k]
};

/// Where a step's products lie. What a gradient needs of them is kept until then.
struct CoreStep {
  at::Tensor h, z;      ///< [R, D], [R, S * C]: the states before
  at::Tensor h_blocks;  ///< h as [blocks, R, width]
  at::Tensor bounded;   ///< [R, A], actions within [-1, 1], where they are an input
  CoreInputs inputs;    ///< two, or three with the action's
  at::Tensor pre_deter, pre_stoch, pre_action;  ///< their products
  at::Tensor mixed,
      mixed_blocks;          ///< [R, D], as [blocks, R, width]; begins as what the action adds
  at::Tensor inverse_mixed;  ///< [R]
  at::Tensor active;         ///< [blocks, R, width]
  at::Tensor gates;          ///< [blocks, R, 3 * width]
  at::Tensor next;           ///< [R, D], the state behind
  CarriedRows carried;       ///< and what goes on of it
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
  /// `products`: what those of the step are in.
  void advance(CoreStep& step, const ProductPrecision& products) const;

  int64_t blocks, width;
  ProductPrecision products;  ///< of many rows
  DenseWeights from_deter, from_stoch, from_action;
  NormWeights deter_norm, stoch_norm, action_norm, mix_norm;
  Weight mix, mix_bias, gates, gates_bias;
  at::Tensor mix_blocks, mix_blocks_back;       ///< [blocks, width, width], of h in its block
  at::Tensor gates_forward, gates_back;         ///< [blocks, width, 3 * width] and its transposes
  at::Tensor mix_states_back, mix_action_back;  ///< transposes of what the inputs mix in
  const MixInputs* mix_inputs;
  at::Tensor state_bias, state_scale;  ///< [2, hidden], of h and z
};

}  // namespace maglev::dreamer
