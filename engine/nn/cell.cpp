#include "engine/nn/cell.h"

#include <vector>

#include <ATen/ATen.h>

#include "engine/nn/autocast.h"
#include "engine/nn/linear.h"

namespace maglev {

Cell::Cell(CellKind kind, int64_t inputs, int64_t units, Initializer& init)
    : kind_(kind), units_(units) {
  // reset, update and candidate; a minimal one has no reset
  const int64_t parts = kind == CellKind::gru ? 3 : 2;
  const auto add = [&](const char* name, int64_t from) {
    at::Tensor weight =
        register_parameter(std::string(name) + "_weight", init.weight({parts * units, from}));
    for (at::Tensor part : weight.split(units)) init.orthogonal(part, 1);
    return std::pair(weight,
                     register_parameter(std::string(name) + "_bias", at::zeros({parts * units})));
  };
  std::tie(input_weight_, input_bias_) = add("input", inputs);
  if (kind == CellKind::gru) std::tie(memory_weight_, memory_bias_) = add("memory", units);
}

at::Tensor Cell::forward(const at::Tensor& x, at::Tensor h, const at::Tensor& keep) const {
  // what depends on no step before, of all steps at once
  const at::Tensor of_input = linear(x, input_weight_, input_bias_)
                                  .to(at::kFloat)
                                  .view({keep.size(0), keep.size(1), input_weight_.size(0)});
  // step by step what does
  const WithoutAutocast exact(x.device());
  std::vector<at::Tensor> behind;
  for (int64_t l = 0; l < keep.size(0); ++l) {
    h = h * keep[l];
    h = kind_ == CellKind::gru ? next_gru(of_input[l], h) : next_mingru(of_input[l], h);
    behind.push_back(h);
  }
  return behind.size() == 1 ? h : at::cat(behind);
}

at::Tensor Cell::next_gru(const at::Tensor& of_input, const at::Tensor& h) const {
  const at::Tensor of_memory = at::linear(h, memory_weight_, memory_bias_);
  const auto gates =
      at::sigmoid(of_input.narrow(1, 0, 2 * units_) + of_memory.narrow(1, 0, 2 * units_));
  const auto reset = gates.narrow(1, 0, units_), update = gates.narrow(1, units_, units_);
  const auto candidate = at::tanh(of_input.narrow(1, 2 * units_, units_) +
                                  reset * of_memory.narrow(1, 2 * units_, units_));
  return at::lerp(candidate, h, update);
}

at::Tensor Cell::next_mingru(const at::Tensor& of_input, const at::Tensor& h) const {
  const auto update = at::sigmoid(of_input.narrow(1, 0, units_));
  return at::lerp(h, of_input.narrow(1, units_, units_), update);
}

RowCost Cell::cost() const {
  RowCost cost = cost_of(parameters());
  // gates, the candidate and what is remembered, as autograd keeps them
  cost.outputs += 5 * units_;
  return cost;
}

}  // namespace maglev
