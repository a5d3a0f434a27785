#include "algos/dreamer/fused/core.h"

#include <string>

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
  all = side_by_side;
  states = side_by_side.narrow(0, 0, 2 * s.hidden);
  action = side_by_side.narrow(0, 2 * s.hidden, s.hidden);
  for (const std::string input : {"from_deter", "from_stoch", "from_action"}) {
    biases_.push_back(weight_of(*networks.rssm, input + ".dense0.bias").value);
    scales_.push_back(weight_of(*networks.rssm, input + ".norm0.scale").value);
  }
  bias = at::empty({3, s.hidden}, weight_.options()), scale = at::empty_like(bias);
}

void MixInputs::pack() {
  packed_.copy_(weight_.transpose(0, 1));
  at::stack_out(bias, biases_), at::stack_out(scale, scales_);
}

CoreInputs::CoreInputs(int64_t rows, int64_t k, int64_t hidden, const at::TensorOptions& options)
    : hidden(hidden),
      pre(at::empty({rows, k * hidden}, options)),
      active(at::empty_like(pre)),
      pre_rows(pre.view({rows * k, hidden})),
      active_rows(active.view({rows * k, hidden})),
      inverse(at::empty({rows * k}, options)) {}

CoreInputs CoreInputs::rows(int64_t first, int64_t count) const {
  const int64_t k = pre.size(1) / hidden;
  CoreInputs part = *this;
  for (at::Tensor* t : {&part.pre, &part.active}) *t = t->narrow(0, first, count);
  for (at::Tensor* t : {&part.pre_rows, &part.active_rows, &part.inverse})
    *t = t->narrow(0, first * k, count * k);
  return part;
}

at::Tensor CoreInputs::column(const at::Tensor& of, int64_t i) const {
  return of.narrow(1, i * hidden, hidden);
}

Core::Core(const ModelShape& s, const Networks& networks, const MixInputs& inputs, WeightRows& rows)
    : blocks(s.blocks),
      width(s.deter / s.blocks),
      products(rows.products()),
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
      mix_inputs(&inputs),
      state_bias(inputs.bias.narrow(0, 0, 2)),
      state_scale(inputs.scale.narrow(0, 0, 2)) {}

void Core::add_action(ActionStep& s, at::Tensor& mixed) const {
  write_product(s.pre, s.bounded, from_action.forward, products);
  norm_silu_(s.pre, from_action.bias, action_norm.scale, kNormEps, s.active, s.inverse);
  write_product(mixed, s.active, mix_inputs->action, products);
}

void Core::advance(CoreStep& s, const ProductPrecision& in) const {
  // hidden layers of the inputs
  write_product(s.pre_deter, s.h, from_deter.forward, in);
  write_product(s.pre_stoch, s.z, from_stoch.forward, in);
  const bool with_action = s.bounded.defined();
  if (with_action) write_product(s.pre_action, s.bounded, from_action.forward, in);
  norm_silu_(s.inputs.pre_rows, with_action ? mix_inputs->bias : state_bias,
             with_action ? mix_inputs->scale : state_scale, kNormEps, s.inputs.active_rows,
             s.inputs.inverse);
  // each block sees its own part of h, and all of the inputs
  if (with_action) write_product(s.mixed, s.inputs.active, mix_inputs->all, in);
  else add_product(s.mixed, s.inputs.active, mix_inputs->states, in);
  add_product(s.mixed_blocks, s.h_blocks, mix_blocks, in);
  norm_silu_(s.mixed, mix_bias.value, mix_norm.scale, kNormEps, s.active, s.inverse_mixed);
  write_product(s.gates, s.active, gates_forward, in);
  gru({s.gates, gates_bias.value, s.h}, s.next, s.carried);
}

}  // namespace maglev::dreamer
