#include "algos/dreamer/fused/core.h"

#include <ATen/ATen.h>

#include "kernels/gru/gru_op.h"
#include "kernels/norm_silu/norm_silu_op.h"
#include "kernels/products/products_op.h"

namespace maglev::dreamer {

MixInputs::MixInputs(const ModelShape& s, const Networks& networks) {
  const int64_t width = s.deter / s.blocks, inputs = 3 * s.hidden;
  weight_ = weight_of(*networks.rssm, "mix.weight").value.narrow(1, width, inputs);
  const auto side_by_side = at::empty({inputs, s.deter}, weight_.options());
  packed_ = side_by_side.view({inputs, s.blocks, width});
  states = side_by_side.narrow(0, 0, 2 * s.hidden);
  action = side_by_side.narrow(0, 2 * s.hidden, s.hidden);
}

void MixInputs::pack() { packed_.copy_(weight_.transpose(0, 1)); }

Core::Core(const ModelShape& s, const Networks& networks, const MixInputs& inputs, WeightRows& rows)
    : blocks(s.blocks),
      width(s.deter / s.blocks),
      from_deter(dense_of(*networks.rssm, "from_deter.dense0", rows)),
      from_stoch(dense_of(*networks.rssm, "from_stoch.dense0", rows)),
      from_action(dense_of(*networks.rssm, "from_action.dense0", rows)),
      deter_norm(norm_of(*networks.rssm, "from_deter.norm0")),
      stoch_norm(norm_of(*networks.rssm, "from_stoch.norm0")),
      action_norm(norm_of(*networks.rssm, "from_action.norm0")),
      mix_norm(norm_of(*networks.rssm, "mix_norm")),
      mix(weight_of(*networks.rssm, "mix.weight")),
      mix_bias(weight_of(*networks.rssm, "mix.bias")),
      gates(weight_of(*networks.rssm, "gates.weight")),
      gates_bias(weight_of(*networks.rssm, "gates.bias")),
      mix_blocks(rows.of(mix.value.narrow(1, 0, width))),
      mix_blocks_back(rows.of(mix.value.narrow(1, 0, width).transpose(1, 2))),
      gates_forward(rows.of(gates.value)),
      gates_back(rows.of(gates.value.transpose(1, 2))),
      mix_states_back(rows.of(inputs.states.t())),
      mix_action_back(rows.of(inputs.action.t())),
      mix_inputs(&inputs) {}

void Core::add_action(ActionStep& s, at::Tensor& mixed) const {
  write_product(s.pre, s.bounded, from_action.forward);
  norm_silu_(s.pre, {}, from_action.bias, action_norm.scale, kNormEps, s.active, s.inverse);
  write_product(mixed, s.active, mix_inputs->action);
}

void Core::advance(CoreStep& s) const {
  write_product(s.pre_deter, s.h, from_deter.forward);
  norm_silu_(s.pre_deter, {}, from_deter.bias, deter_norm.scale, kNormEps, s.deter,
             s.inverse_deter);
  write_product(s.pre_stoch, s.z, from_stoch.forward);
  norm_silu_(s.pre_stoch, {}, from_stoch.bias, stoch_norm.scale, kNormEps, s.stoch,
             s.inverse_stoch);
  // each block sees its own part of h, and all of the three inputs
  add_product(s.mixed, s.states, mix_inputs->states);
  write_product(s.block, s.h_blocks, mix_blocks);
  norm_silu_(s.mixed, s.block, mix_bias.value, mix_norm.scale, kNormEps, s.active, s.inverse_mixed);
  write_product(s.gates, s.active, gates_forward);
  gru({s.gates, gates_bias.value, s.h}, s.next);
}

}  // namespace maglev::dreamer
