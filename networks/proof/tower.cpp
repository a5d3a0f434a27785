#include "networks/proof/tower.h"

#include <cmath>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "engine/device/precision.h"
#include "kernels/relu_layers/relu_layers_op.h"

namespace maglev::networks::proof {

Body::Body(int64_t in, int64_t width, int64_t blocks, Initializer& init) {
  for (int64_t i = 0; i <= blocks; ++i) {
    const std::string n = std::to_string(i);
    ReluNormLayer layer{
        .weight = register_parameter("weight" + n, init.weight({width, i == 0 ? in : width})),
        .bias = register_parameter("bias" + n, init.weight({width})),
        .gain = register_parameter("gain" + n, init.weight({width})),
        .shift = register_parameter("shift" + n, init.weight({width}))};
    init.orthogonal(layer.weight, std::sqrt(2.0));
    at::NoGradGuard no_grad;
    layer.gain.fill_(1);
    layers_.push_back(layer);
  }
}

at::Tensor Body::forward(const at::Tensor& x, bool fused) const {
  const auto first = fused ? relu_norm : relu_norm_reference;
  const auto block = fused ? relu_norm_block : relu_norm_block_reference;
  auto y = first(x, layers_[0]);
  for (size_t i = 1; i < layers_.size(); ++i) y = block(y, layers_[i]);
  return y;
}

Head::Head(int64_t in, const std::vector<int64_t>& outputs, bool relu_behind, double gain,
           Initializer& init)
    : relu_behind_(relu_behind) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string n = std::to_string(i);
    weights_.push_back(register_parameter("weight" + n, init.weight({outputs[i], in})));
    biases_.push_back(register_parameter("bias" + n, init.weight({outputs[i]})));
    init.orthogonal(weights_[i], i + 1 == outputs.size() ? gain : std::sqrt(2.0));
    in = outputs[i];
  }
}

at::Tensor Head::forward(const at::Tensor& x, bool fused) const {
  auto y = fused ? x.to(product_type(x.device())) : x;
  for (size_t i = 0; i < weights_.size(); ++i) {
    const bool relu = relu_behind_ || i + 1 < weights_.size();
    if (fused) {
      const LayerWeights layer{weights_[i], biases_[i], {}, {}};
      y = relu ? linear_relu(y, layer) : linear_alone(y, layer);
    } else {
      y = at::linear(y, weights_[i], biases_[i]);
      if (relu) y = at::relu(y);
    }
  }
  return y.to(at::kFloat);
}

}  // namespace maglev::networks::proof
