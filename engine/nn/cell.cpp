#include "engine/nn/cell.h"

#include <utility>

#include <ATen/ATen.h>

#include "engine/device/aten_only.h"
#include "engine/nn/autocast.h"
#include "kernels/gru_scan/gru_scan_op.h"

namespace maglev {

Cell::Cell(int64_t inputs, int64_t units, bool fused, Initializer& init)
    : units_(units), fused_(fused) {
  const auto add = [&](const char* name, int64_t from) {
    const at::Tensor weight = register_parameter(name, init.weight({3 * units, from}));
    for (const at::Tensor& gate : weight.split(units)) init.orthogonal(gate, 1);
    return weight;
  };
  input_weight_ = add("input_weight", inputs);
  memory_weight_ = add("memory_weight", units);
  bias_ = register_parameter("bias", at::zeros({3 * units}));
}

at::Tensor Cell::forward(const at::Tensor& x, const at::Tensor& h, const at::Tensor& keep) const {
  // what depends on no step before, of all steps at once
  const at::Tensor products = at::linear(x, input_weight_).to(at::kFloat);
  // step by step what does
  const WithoutAutocast exact(x.device());
  const GruScan scan{.products = products.view({keep.size(0), keep.size(1), 3 * units_}),
                     .bias = bias_,
                     .weight = memory_weight_,
                     .h = h,
                     .keep = keep};
  const bool fused = fused_ && !AtenOnly::on();
  return (fused ? gru_scan(scan) : gru_scan_reference(scan)).flatten(0, 1);
}

std::optional<DenseCell> Cell::dense(std::vector<DenseTensors> trunk) const {
  if (!fused_) return std::nullopt;
  trunk.push_back({input_weight_, bias_, Activation::none});
  return DenseCell{std::move(trunk), memory_weight_};
}

RowCost Cell::cost() const {
  RowCost cost = cost_of(parameters());
  // gates there and back, what a step begins with, what is remembered and its gradient
  cost.outputs += 6 * units_;
  return cost;
}

}  // namespace maglev
