#include "kernels/relu_layers/winograd_op.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

namespace maglev {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Winograd winograd_shape(const at::Tensor& x, const at::Tensor& weight, int64_t padding) {
  return {x.size(0), x.size(2), x.size(3), x.size(1), weight.size(0), padding};
}

at::Tensor winograd_forward_of(const at::Tensor& x, const at::Tensor& weight,
                               const at::Tensor& bias, int64_t padding) {
  const Winograd s = winograd_shape(x, weight, padding);
  auto y = at::empty({s.images, s.outs, s.made_height(), s.made_width()}, x.options(),
                     at::MemoryFormat::ChannelsLast);
  const auto by_place = weight.permute({2, 3, 1, 0}).contiguous();
  auto scratch = at::empty({s.forward_scratch()}, x.options());
  winograd_forward_cpu({.shape = s,
                        .weight = by_place.const_data_ptr<float>(),
                        .bias = bias.const_data_ptr<float>(),
                        .x = x.const_data_ptr<float>(),
                        .y = y.data_ptr<float>(),
                        .scratch = scratch.data_ptr<float>()});
  return y;
}

class WinogradConv : public torch::autograd::Function<WinogradConv> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, int64_t padding) {
    auto y = winograd_forward_of(x, weight, bias, padding);
    context->save_for_backward({x, weight, y});
    context->saved_data["padding"] = padding;
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &y = saved[2];
    const Winograd s = winograd_shape(x, weight, context->saved_data["padding"].toInt());
    const auto dy = grad[0].contiguous(at::MemoryFormat::ChannelsLast);
    const bool wants_dx = context->needs_input_grad(0);
    const auto by_place = wants_dx ? weight.permute({2, 3, 0, 1}).contiguous() : at::Tensor();
    auto dx = wants_dx ? at::empty_like(x) : at::Tensor();
    auto d_weight = at::empty({3, 3, s.channels, s.outs}, x.options());
    auto d_bias = at::empty({s.outs}, x.options());
    auto scratch = at::empty({s.backward_scratch()}, x.options());
    winograd_backward_cpu({.shape = s,
                           .weight = wants_dx ? by_place.const_data_ptr<float>() : nullptr,
                           .x = x.const_data_ptr<float>(),
                           .y = y.const_data_ptr<float>(),
                           .dy = dy.const_data_ptr<float>(),
                           .d_weight = d_weight.data_ptr<float>(),
                           .d_bias = d_bias.data_ptr<float>(),
                           .dx = wants_dx ? dx.data_ptr<float>() : nullptr,
                           .scratch = scratch.data_ptr<float>()});
    return {dx, d_weight.permute({3, 2, 0, 1}).contiguous(), d_bias, {}};
  }
};

}  // namespace

bool suits_winograd(const Winograd& layer) {
  if (layer.channels % kWinogradStep != 0 || layer.outs % kWinogradStep != 0) return false;
  // beyond these, measured, one image takes up to 7 times as long as with a library
  constexpr int64_t kMostWeights = 256 * 256;
  if (layer.channels * layer.outs > kMostWeights) return false;
  if (layer.padding < 0 || layer.padding > 2) return false;
  if (layer.made_height() < 1 || layer.made_width() < 1) return false;
  // products a channel and output: here, and of a library that leaves out the padding, which reaches
  // more of the peak
  Winograd one = layer;
  one.images = 1;
  const auto within = [&](int64_t made) { return 3 * made - one.padding * (one.padding + 1); };
  const int64_t here = 36 * one.tiles();
  return 10 * here < 8 * within(one.made_height()) * within(one.made_width());
}

int64_t winograd_scratch(const Winograd& layer) {
  // weights by their place, their gradients so, and these as the caller has them
  return layer.backward_scratch() + 3 * 9 * layer.channels * layer.outs;
}

at::Tensor winograd_conv_relu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                              int64_t padding) {
  const auto image = x.contiguous(at::MemoryFormat::ChannelsLast);
  const auto added = bias.contiguous();
  const bool gradients = at::GradMode::is_enabled() &&
                         (x.requires_grad() || weight.requires_grad() || bias.requires_grad());
  if (gradients) return WinogradConv::apply(image, weight, added, padding);
  return winograd_forward_of(image, weight, added, padding);
}

}  // namespace maglev
