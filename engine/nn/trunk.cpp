#include "engine/nn/trunk.h"

#include <cmath>

#include <ATen/ATen.h>

#include "engine/nn/linear.h"

namespace maglev {
namespace {

Activation panel_activation(HiddenActivation activation) {
  switch (activation) {
    case HiddenActivation::relu:
      return Activation::relu;
    case HiddenActivation::silu:
      return Activation::silu;
    case HiddenActivation::tanh:
      break;
  }
  return Activation::tanh;
}

}  // namespace

Trunk::Layer Trunk::add_layer(const std::string& name, const std::vector<int64_t>& sizes,
                              Initializer& init) {
  auto weight = register_parameter(name + "_weight", init.weight(sizes));
  auto bias = register_parameter(name + "_bias", at::zeros({sizes[0]}));
  init.orthogonal(weight, std::sqrt(2.0));
  return {weight, bias};
}

at::Tensor side_by_side(const NetInput& input, const at::Tensor& extra) {
  at::Tensor x;
  // channels-last memory is in this order already
  if (input.image.defined())
    x = input.image.permute({0, 2, 3, 1}).reshape({input.image.size(0), -1});
  for (const auto* part : {&input.vector, &extra})
    if (part->defined()) x = x.defined() ? at::cat({x, *part}, 1) : *part;
  return x;
}

DenseTrunk::DenseTrunk(const Shape& shape, const std::vector<int64_t>& hidden,
                       const Nonlinearity& nonlinearity, Initializer& init)
    : nonlinearity_(nonlinearity), features_(shape.elements()) {
  for (int64_t out : hidden) {
    auto [weight, bias] = add_layer("fc" + std::to_string(layers_.size()), {out, features_}, init);
    layers_.push_back({weight, bias, panel_activation(nonlinearity.activation)});
    features_ = out;
  }
}

at::Tensor DenseTrunk::forward(const NetInput& input, const at::Tensor& extra) {
  auto x = side_by_side(input, extra);
  for (const auto& layer : layers_)
    x = input.noted(activate(linear(x, layer.weight, layer.bias), nonlinearity_));
  return x;
}

}  // namespace maglev
