#include "kernels/relu_layers/device_layers_op.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/core/error.h"
#include "engine/device/aten_only.h"
#include "engine/device/launch.h"
#include "kernels/relu_layers/relu_rows.h"

namespace maglev {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const auto left_to_onednn = [](const auto&...) {
  MAGLEV_ASSERT(false, "a processor has bias and ReLU within its layers");
};

// kernels read 16 bytes at once, and a view may begin anywhere
at::Tensor at_16_bytes(const at::Tensor& t) {
  return reinterpret_cast<uintptr_t>(t.const_data_ptr()) % 16 == 0 ? t : t.clone();
}

// images are rows of channels, and rows are what they are
at::Tensor contiguous_rows(const at::Tensor& t) {
  return at_16_bytes(t.dim() == 4 ? t.contiguous(at::MemoryFormat::ChannelsLast) : t.contiguous());
}

// y becomes relu(y + bias)
void relu_rows_(at::Tensor& y, const at::Tensor& bias) {
  const auto own = at_16_bytes(bias.contiguous());
  launch<relu_rows_cuda>("relu_rows", device_of("relu_rows", y, own), left_to_onednn,
                         ReluRows{.y = y.data_ptr(),
                                  .bias = own.const_data_ptr(),
                                  .rows = y.numel() / y.size(1),
                                  .features = y.size(1),
                                  .bf16 = y.scalar_type() == at::kBFloat16});
}

struct MaskedGrad {
  at::Tensor g, d_bias;  ///< as dy; [features] f32
};

MaskedGrad relu_rows_back(const at::Tensor& y, const at::Tensor& grad) {
  const auto dy = contiguous_rows(grad.to(y.scalar_type()));
  const int64_t features = y.size(1), rows = y.numel() / features;
  auto g = at::empty_like(dy);
  auto parts = at::empty({relu_parts(rows), features}, y.options().dtype(at::kFloat));
  launch<relu_rows_grad_cuda>("relu_rows_grad", device_of("relu_rows_grad", y, dy), left_to_onednn,
                              ReluRowsGrad{.y = y.const_data_ptr(),
                                           .dy = dy.const_data_ptr(),
                                           .g = g.data_ptr(),
                                           .parts = parts.data_ptr<float>(),
                                           .rows = rows,
                                           .features = features,
                                           .bf16 = y.scalar_type() == at::kBFloat16});
  return {g, parts.sum(0)};
}

struct ProductGrads {
  at::Tensor dx, d_weight;
};

struct DeviceConv {
  static at::Tensor forward(const at::Tensor& x, const UsedWeights& with) {
    auto y = contiguous_rows(at::conv2d(x, with.weight, {}, with.steps.stride, with.steps.padding));
    relu_rows_(y, with.bias);
    return y;
  }
  static ProductGrads backward(const at::Tensor& g, const at::Tensor& x, const UsedWeights& with,
                               bool wants_dx) {
    const auto [stride, padding] = with.steps;
    auto [dx, d_weight, none] = at::convolution_backward(
        g, x, with.weight, c10::nullopt, {stride, stride}, {padding, padding}, {1, 1}, false,
        {0, 0}, 1, {wants_dx, true, false});
    return {dx, d_weight};
  }
};

struct DeviceLinear {
  // cuBLAS has both in the end of its product
  static at::Tensor forward(const at::Tensor& x, const UsedWeights& with) {
    return at::_addmm_activation(with.bias, x, with.weight.t());
  }
  static ProductGrads backward(const at::Tensor& g, const at::Tensor& x, const UsedWeights& with,
                               bool wants_dx) {
    return {wants_dx ? at::mm(g, with.weight) : at::Tensor(), at::mm(g.t(), x)};
  }
};

/// Gradients of parameters are f32.
template <class Layer>
class DeviceLayer : public torch::autograd::Function<DeviceLayer<Layer>> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor&,
                            const at::Tensor&, const UsedWeights& with) {
    auto y = Layer::forward(x, with);
    context->save_for_backward({x, with.weight, y});
    keep_steps(context, with.steps);
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    const auto saved = context->get_saved_variables();
    const auto [g, d_bias] = relu_rows_back(saved[2], grad[0]);
    const auto [dx, d_weight] = Layer::backward(g, saved[0], {saved[1], {}, kept_steps(context)},
                                                context->needs_input_grad(0));
    return {dx, d_weight.to(at::kFloat), d_bias, {}};
  }
};

template <class Layer>
at::Tensor layer_of(const at::Tensor& x, const LayerWeights& layer, const UsedWeights& with) {
  if (!wants_gradients(x, layer)) return Layer::forward(x, with);
  return DeviceLayer<Layer>::apply(x, layer.weight, layer.bias, with);
}

}  // namespace

void keep_steps(AutogradContext* context, ConvSteps steps) {
  context->saved_data["steps"] = std::vector<int64_t>{steps.stride, steps.padding};
}

ConvSteps kept_steps(AutogradContext* context) {
  const auto steps = context->saved_data["steps"].toIntVector();
  return {steps[0], steps[1]};
}

bool wants_gradients(const at::Tensor& x, const LayerWeights& layer) {
  return at::GradMode::is_enabled() &&
         (x.requires_grad() || layer.weight.requires_grad() || layer.bias.requires_grad());
}

bool suits_device_layers(const at::Tensor& x, int64_t outputs) {
  const bool as_it_is =
      x.scalar_type() == at::kBFloat16 ||
      (x.scalar_type() == at::kFloat && !at::autocast::is_autocast_enabled(x.device().type()));
  return x.device().is_cuda() && as_it_is && x.numel() > 0 && !AtenOnly::on() &&
         outputs % kReluGroup == 0 && outputs <= kMostReluFeatures;
}

at::Tensor device_conv_relu(const at::Tensor& x, const LayerWeights& layer,
                            const UsedWeights& with) {
  return layer_of<DeviceConv>(x, layer, with);
}

at::Tensor device_linear_relu(const at::Tensor& x, const LayerWeights& layer,
                              const UsedWeights& with) {
  return layer_of<DeviceLinear>(x, layer, with);
}

}  // namespace maglev
