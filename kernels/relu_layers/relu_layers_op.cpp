#include "kernels/relu_layers/relu_layers_op.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <ATen/Version.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/core/error.h"
#include "base/trace/span.h"
#include "engine/device/aten_only.h"
#include "engine/device/kernel.h"
#include "kernels/relu_layers/conv_lanes.h"
#include "kernels/relu_layers/device_layers_op.h"
#include "kernels/relu_layers/winograd_op.h"

namespace maglev {
namespace {

using Scalars = c10::List<std::optional<at::Scalar>>;
using Text = std::optional<std::string_view>;

// torch registers its oneDNN layers with an operation behind them for its own compiler only
at::Tensor onednn_conv(const at::Tensor& x, const UsedWeights& with) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("mkldnn::_convolution_pointwise", "")
          .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                            at::IntArrayRef, at::IntArrayRef, at::IntArrayRef, int64_t,
                            std::string_view, Scalars, Text)>();
  const auto [stride, padding] = with.steps;
  return op.call(x, with.weight, with.bias, {padding, padding}, {stride, stride}, {1, 1}, 1, "relu",
                 Scalars(), std::nullopt);
}

at::Tensor onednn_linear(const at::Tensor& x, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias, std::string_view behind) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("mkldnn::_linear_pointwise", "")
          .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                            std::string_view, Scalars, Text)>();
  return op.call(x, weight, bias, behind, Scalars(), std::nullopt);
}

UsedWeights used(const at::Tensor& x, const LayerWeights& layer, ConvSteps steps = {}) {
  const at::ScalarType type = x.scalar_type();
  if (type == at::kFloat) return {layer.weight, layer.bias, steps};
  if (type == at::kBFloat16 && layer.weight_low.defined())
    return {layer.weight_low, layer.bias_low, steps};
  // on a device fp16 too
  return {layer.weight.to(type), layer.bias.to(type), steps};
}

// the same where ATen's operations find the gradients: they go through the rounding to the
// parameters, which no rounded copy leads to
UsedWeights used_by_aten(const at::Tensor& x, const LayerWeights& layer, ConvSteps steps = {}) {
  if (!wants_gradients(x, layer)) return used(x, layer, steps);
  return used(x, {layer.weight, layer.bias, {}, {}}, steps);
}

// oneDNN's own kernels for bf16 begin with AVX-512
bool onednn_has(const at::Tensor& x) {
  static const bool avx512 = at::get_cpu_capability() == "AVX512";
  return x.is_cpu() && x.numel() > 0 && at::hasMKLDNN() && !AtenOnly::on() &&
         (x.scalar_type() == at::kFloat || avx512);
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Gradients behind a layer's relu; dx undefined where nobody asks for it.
struct LayerGrads {
  at::Tensor dx, dweight, dbias;
};

// operations of a convolution of x with its padding, or of its way back to weights or images
int64_t conv_flops(const at::Tensor& x, const UsedWeights& with) {
  const at::Tensor& weight = with.weight;
  const int64_t places =
      with.steps.places(x.size(2), weight.size(2)) * with.steps.places(x.size(3), weight.size(3));
  return 2 * x.size(0) * places * weight.numel();
}

struct Conv {
  static constexpr bool kRelu = true;
  static constexpr const char* kBack = "conv_backward";
  static constexpr auto flops = conv_flops;
  static at::Tensor forward(const at::Tensor& x, const UsedWeights& with) {
    const auto span = trace::kernel("conv_forward", flops(x, with));
    return onednn_conv(x, with);
  }
  static LayerGrads backward(const at::Tensor& g, const at::Tensor& x, const UsedWeights& with,
                             bool wants_dx) {
    const auto [stride, padding] = with.steps;
    auto [dx, dweight, dbias] = at::convolution_backward(
        g, x, with.weight, at::IntArrayRef{with.weight.size(0)}, {stride, stride},
        {padding, padding}, {1, 1}, false, {0, 0}, 1, {wants_dx, true, true});
    return {dx, dweight, dbias};
  }
};

template <bool kWithRelu>
struct Linear {
  static constexpr bool kRelu = kWithRelu;
  static constexpr const char* kBack = "linear_backward";
  static int64_t flops(const at::Tensor& x, const UsedWeights& with) {
    return 2 * x.numel() * with.weight.size(0);
  }
  static at::Tensor forward(const at::Tensor& x, const UsedWeights& with) {
    const auto span = trace::kernel("linear_forward", flops(x, with));
    return onednn_linear(x, with.weight, with.bias, kRelu ? "relu" : "none");
  }
  static LayerGrads backward(const at::Tensor& g, const at::Tensor& x, const UsedWeights& with,
                             bool wants_dx) {
    at::Tensor dx;
    if (wants_dx) dx = onednn_linear(g, with.weight.t(), {}, "none");
    return {dx, onednn_linear(g.t(), x.t(), {}, "none"),
            g.sum(at::IntArrayRef{0}, false, at::kFloat)};
  }
};

/// A layer, with its relu where it has one, for autograd. Gradients of parameters are f32.
template <class Layer>
class OneOperation : public torch::autograd::Function<OneOperation<Layer>> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor&,
                            const at::Tensor&, const UsedWeights& with) {
    auto y = Layer::forward(x, with);
    context->save_for_backward({x, with.weight, Layer::kRelu ? y : at::Tensor()});
    keep_steps(context, with.steps);
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &y = saved[2];
    const UsedWeights with{saved[1], {}, kept_steps(context)};
    const bool wants_dx = context->needs_input_grad(0);
    const auto span = trace::kernel(Layer::kBack, (wants_dx ? 2 : 1) * Layer::flops(x, with));
    const auto g = Layer::kRelu ? at::threshold_backward(grad[0], y, 0) : grad[0].contiguous();
    const auto [dx, dweight, dbias] = Layer::backward(g, x, with, wants_dx);
    return {dx, dweight.to(at::kFloat), dbias.to(at::kFloat), {}};
  }
};

// oneDNN fills vectors with channels from here on
constexpr int64_t kFewOuts = 16;

// whether a layer's images go into lanes: a first layer's, whose inputs need no gradient
bool suits_lanes(const at::Tensor& x, const at::Tensor& weight) {
  return weight.size(0) <= kFewOuts && weight.size(0) % kOutBlock == 0 &&
         x.size(0) >= kImageLanes && !(at::GradMode::is_enabled() && x.requires_grad());
}

// whether parameters are of a convolution of these images
bool fits(const at::Tensor& x, const LayerWeights& layer) {
  const at::Tensor& weight = layer.weight;
  return x.dim() == 4 && weight.dim() == 4 && weight.size(1) == x.size(1) &&
         layer.bias.numel() == weight.size(0);
}

// whether it is one that looks at every pixel through 3 x 3
bool is_3x3(const at::Tensor& weight, ConvSteps steps) {
  return weight.size(2) == 3 && weight.size(3) == 3 && steps.stride == 1;
}

// what a layer of 3 x 3 would be in tiles, for so many images of such a size
Winograd tiles_of(int64_t images, int64_t height, int64_t width, const at::Tensor& weight,
                  ConvSteps steps) {
  return {images, height, width, weight.size(1), weight.size(0), steps.padding};
}

ConvLanes lanes_shape(const at::Tensor& x, const at::Tensor& weight) {
  return {x.size(2), x.size(3), x.size(1), weight.size(0)};
}

// images and outputs of all panels where gradients will be asked for, else one panel's place
struct LanesMemory {
  at::Tensor input, output;
};

LanesMemory lanes_memory(const ConvLanes& s, int64_t panels, const at::TensorOptions& options) {
  return {at::empty({panels, s.input()}, options), at::empty({panels, s.output()}, options)};
}

at::Tensor lanes_forward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                         LanesMemory& memory) {
  const auto span = trace::kernel("conv_lanes_forward", conv_flops(x, {weight, bias, {}}));
  const ConvLanes s = lanes_shape(x, weight);
  const int64_t B = x.size(0), last = memory.input.size(0) - 1;
  auto packed = at::empty({s.packed()}, x.options());
  auto y = at::empty({B, s.outs, s.height, s.width}, x.options(), at::MemoryFormat::ChannelsLast);
  pack_conv_lanes_cpu(s, weight.const_data_ptr<float>(), packed.data_ptr<float>());
  for (int64_t first = 0, panel = 0; first < B; first += kImageLanes, ++panel)
    conv_lanes_forward_cpu(
        {.shape = s,
         .packed = packed.const_data_ptr<float>(),
         .bias = bias.const_data_ptr<float>(),
         .x = x.const_data_ptr<float>() + first * s.pixels(),
         .count = std::min(kImageLanes, B - first),
         .input = memory.input.data_ptr<float>() + std::min(panel, last) * s.input(),
         .output = memory.output.data_ptr<float>() + std::min(panel, last) * s.output(),
         .y = y.data_ptr<float>() + first * s.outs * s.places()});
  return y;
}

/// A first convolution with its relu, images in lanes.
class FirstConv : public torch::autograd::Function<FirstConv> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias) {
    const ConvLanes s = lanes_shape(x, weight);
    auto memory = lanes_memory(s, (x.size(0) + kImageLanes - 1) / kImageLanes, x.options());
    auto y = lanes_forward(x, weight, bias, memory);
    context->save_for_backward({memory.input, memory.output});
    context->saved_data["shape"] = std::vector<int64_t>{s.height, s.width, s.channels, s.outs};
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    const auto saved = context->get_saved_variables();
    const auto sizes = context->saved_data["shape"].toIntVector();
    const ConvLanes s{sizes[0], sizes[1], sizes[2], sizes[3]};
    const auto span =
        trace::kernel("conv_lanes_backward", 2 * grad[0].size(0) * s.places() * s.packed());
    const auto dy = grad[0].contiguous(at::MemoryFormat::ChannelsLast);
    auto scratch = at::empty({s.output() + s.outs * kImageLanes}, dy.options());
    auto d_weight = at::zeros({3, 3, s.channels, s.outs}, dy.options());
    auto d_bias = at::zeros({s.outs}, dy.options());
    for (int64_t first = 0, panel = 0; first < dy.size(0); first += kImageLanes, ++panel)
      conv_lanes_backward_cpu({.shape = s,
                               .input = saved[0].const_data_ptr<float>() + panel * s.input(),
                               .output = saved[1].const_data_ptr<float>() + panel * s.output(),
                               .dy = dy.const_data_ptr<float>() + first * s.outs * s.places(),
                               .count = std::min(kImageLanes, dy.size(0) - first),
                               .d_weight = d_weight.data_ptr<float>(),
                               .d_bias = d_bias.data_ptr<float>(),
                               .scratch = scratch.data_ptr<float>()});
    return {at::Tensor(), d_weight.permute({3, 2, 0, 1}).contiguous(), d_bias};
  }
};

// the same in ATen's words: the reference, and what runs where oneDNN does not
at::Tensor plain_conv(const at::Tensor& x, const UsedWeights& with) {
  return at::conv2d(x, with.weight, with.bias, with.steps.stride, with.steps.padding).relu_();
}
template <bool kRelu>
at::Tensor plain_linear(const at::Tensor& x, const UsedWeights& with) {
  auto y = at::linear(x, with.weight, with.bias);
  return kRelu ? y.relu_() : y;
}

template <bool kRelu>
at::Tensor dense_layer(const at::Tensor& x, const LayerWeights& layer) {
  if (kRelu && suits_device_layers(x, layer.weight.size(0)))
    return device_linear_relu(x, layer, used(x, layer));
  if (!onednn_has(x)) return plain_linear<kRelu>(x, used_by_aten(x, layer));
  const auto with = used(x, layer);
  if (!wants_gradients(x, layer)) return Linear<kRelu>::forward(x, with);
  return OneOperation<Linear<kRelu>>::apply(x, layer.weight, layer.bias, with);
}

struct LayerShape {
  int64_t B, C, H, W, O;  ///< H = 0: a linear layer with C inputs
  bool low = false;
  bool relu = true;       ///< a linear layer may be without
  bool winograd = false;  ///< a convolution in fewer products
  bool views = false;     ///< its bias and what comes back are views that begin an element in
  int64_t kernel = 3;
  ConvSteps steps = {};
};

KernelCase make_case(const LayerShape& s, at::Device device) {
  const bool conv = s.H > 0;
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(s.B * s.C + s.O));
  auto x = conv ? at::randn({s.B, s.C, s.H, s.W}, gen).contiguous(at::MemoryFormat::ChannelsLast)
                : at::randn({s.B, s.C}, gen);
  const int64_t window = s.kernel * s.kernel, sums = conv ? window * s.C : s.C;
  auto weight = conv ? at::randn({s.O, s.C, s.kernel, s.kernel}, gen) : at::randn({s.O, s.C}, gen);
  weight.div_(std::sqrt(double(sums)));
  auto bias = at::randn({s.O}, gen).mul_(0.1);
  // one sign an image and one an output: nothing comes near relu's kink, where neither differences
  // nor two ways of rounding agree
  auto one_sign = [](at::Tensor& t) {
    std::vector<int64_t> column(size_t(t.dim()), 1);
    column[0] = -1;
    t.abs_().mul_((at::arange(t.size(0)) % 3 - 0.5).sign().view(column));
  };
  one_sign(x), one_sign(weight);
  auto run = [low = s.low, steps = s.steps](const Tensors& in, auto&& layer) {
    // gradients are checked in f64, which nothing rounds
    const bool round = low && in[0].scalar_type() == at::kFloat;
    auto y = layer(round ? in[0].to(at::kBFloat16) : in[0],
                   round ? UsedWeights{in[1].to(at::kBFloat16), in[2].to(at::kBFloat16), steps}
                         : UsedWeights{in[1], in[2], steps});
    return Tensors{y.to(in[0].scalar_type())};
  };
  const int64_t places = conv ? s.steps.places(s.H, s.kernel) * s.steps.places(s.W, s.kernel) : 1;
  const std::string type = s.low ? " bf16" : " f32";
  const bool plain = s.kernel == 3 && s.steps.stride == 1 && s.steps.padding == 1;
  const std::string moves = plain ? ""
                                  : " by " + std::to_string(s.kernel) + "/" +
                                        std::to_string(s.steps.stride) + " in " +
                                        std::to_string(s.steps.padding);
  return {
      .name = (conv ? (s.winograd ? "winograd " : "conv ") + std::to_string(s.C) + "x" +
                          std::to_string(s.H) + "x" + std::to_string(s.W)
                    : (s.relu ? "linear " : "linear alone ") + std::to_string(s.C)) +
              moves + " -> " + std::to_string(s.O) + " B=" + std::to_string(s.B) + type +
              (s.views ? " views" : ""),
      .inputs = {x.to(device), weight.to(device), bias.to(device)},
      .reference =
          [run, conv, relu = s.relu](const Tensors& in) {
            return run(in, [=](const at::Tensor& t, const UsedWeights& with) {
              if (conv) return plain_conv(t, with);
              return relu ? plain_linear<true>(t, with) : plain_linear<false>(t, with);
            });
          },
      .fused =
          [conv, low = s.low, relu = s.relu, winograd = s.winograd, views = s.views,
           steps = s.steps](const Tensors& in) {
            const auto an_element_in = [&](const at::Tensor& t) {
              if (!views) return t;
              const auto flat = t.flatten();
              return at::cat({flat.narrow(0, 0, 1), flat}).narrow(0, 1, t.numel()).view(t.sizes());
            };
            const LayerWeights layer{in[1], an_element_in(in[2]), {}, {}};
            auto t = low ? in[0].to(at::kBFloat16) : in[0];
            const auto y = conv   ? conv_relu(t, layer, steps, winograd)
                           : relu ? linear_relu(t, layer)
                                  : linear_alone(t, layer);
            return Tensors{an_element_in(y).to(in[0].scalar_type())};
          },
      // over a layer's inputs, and back over outputs or, for weights, over all places; in bf16 the
      // sums are f32's, but what is read, three times, and what is given round each by itself
      .tolerance = s.low ? Tolerance::of_sums(4, kRoundBf16)
                         : Tolerance::of_sums(sums + std::max(window * s.O, s.B * places)),
      .bytes = (x.numel() + weight.numel() + s.B * places * s.O) * (s.low ? 2 : 4),
      .flops = 2 * s.B * places * sums * s.O};
}

// a network's first layer: images are given, gradients asked of its parameters
KernelCase first_case(const LayerShape& s, at::Device device) {
  KernelCase made = make_case(s, device);
  const auto x = made.inputs[0];
  made.name = "first " + made.name;
  made.inputs.erase(made.inputs.begin());
  const auto with_images = [x](const auto& function) {
    return [x, function](const Tensors& in) {
      return function({x.to(in[0].scalar_type()), in[0], in[1]});
    };
  };
  made.reference = with_images(made.reference);
  made.fused = with_images(made.fused);
  return made;
}

std::vector<KernelCase> relu_layers_cases(at::Device device) {
  std::vector<KernelCase> list;
  // whole panels and less, rows that are aligned and rows that are not
  for (const LayerShape& s : {LayerShape{.B = 256, .C = 4, .H = 10, .W = 10, .O = 16},
                              LayerShape{.B = 21, .C = 3, .H = 5, .W = 4, .O = 12}})
    list.push_back(first_case(s, device));
  // whole blocks of tiles and less, tiles that the image's edge cuts
  for (const LayerShape& s :
       {LayerShape{.B = 3, .C = 16, .H = 5, .W = 6, .O = 32},
        LayerShape{.B = 1, .C = 48, .H = 3, .W = 9, .O = 16},
        LayerShape{.B = 5, .C = 32, .H = 11, .W = 11, .O = 64},
        LayerShape{.B = 64, .C = 64, .H = 11, .W = 11, .O = 64},
        LayerShape{.B = 5, .C = 64, .H = 9, .W = 9, .O = 64, .steps = {1, 0}},
        LayerShape{.B = 3, .C = 16, .H = 7, .W = 4, .O = 32, .steps = {1, 2}}}) {
    LayerShape shape = s;
    shape.winograd = true;
    list.push_back(make_case(shape, device));
  }
  // a block and a rest of it, without gradients of the images
  list.push_back(first_case({.B = 13, .C = 16, .H = 7, .W = 6, .O = 16, .winograd = true}, device));
  for (bool low : {false, true})
    for (const LayerShape& s :
         {LayerShape{.B = 3, .C = 2, .H = 5, .W = 4, .O = 6},
          LayerShape{.B = 4, .C = 4, .H = 36, .W = 37, .O = 32, .kernel = 8, .steps = {4, 0}},
          LayerShape{.B = 4, .C = 32, .H = 12, .W = 11, .O = 64, .kernel = 4, .steps = {2, 1}},
          LayerShape{.B = 3, .C = 8, .H = 9, .W = 9, .O = 16, .kernel = 5, .steps = {1, 2}},
          LayerShape{.B = 4, .C = 2, .H = 11, .W = 11, .O = 32},
          LayerShape{.B = 4, .C = 32, .H = 11, .W = 11, .O = 64},
          LayerShape{.B = 4, .C = 64, .H = 11, .W = 11, .O = 64},
          LayerShape{.B = 5, .C = 20, .O = 12}, LayerShape{.B = 16, .C = 968, .O = 128},
          LayerShape{.B = 33, .C = 64, .O = 50, .relu = false},
          LayerShape{.B = 6, .C = 24, .O = 16, .views = true}}) {
      LayerShape shape = s;
      shape.low = low;
      list.push_back(make_case(shape, device));
    }
  return list;
}

}  // namespace

at::Tensor conv_relu(const at::Tensor& x, const LayerWeights& layer, ConvSteps steps,
                     bool winograd) {
  // what does not fit together is for a library to refuse
  if (fits(x, layer) && suits_device_layers(x, layer.weight.size(0)))
    return device_conv_relu(x.contiguous(at::MemoryFormat::ChannelsLast), layer,
                            used(x, layer, steps));
  const bool ours = x.is_cpu() && x.scalar_type() == at::kFloat && x.numel() > 0 &&
                    !AtenOnly::on() && fits(x, layer) && is_3x3(layer.weight, steps);
  if (ours && winograd &&
      suits_winograd(tiles_of(x.size(0), x.size(2), x.size(3), layer.weight, steps)))
    return winograd_conv_relu(x, layer.weight, layer.bias, steps.padding);
  if (ours && steps.padding == 1 && suits_lanes(x, layer.weight)) {
    const auto image = x.contiguous(at::MemoryFormat::ChannelsLast);
    const auto weight = layer.weight.contiguous(), bias = layer.bias.contiguous();
    if (wants_gradients(x, layer)) return FirstConv::apply(image, weight, bias);
    auto memory = lanes_memory(lanes_shape(image, weight), 1, image.options());
    return lanes_forward(image, weight, bias, memory);
  }
  if (!onednn_has(x)) return plain_conv(x, used_by_aten(x, layer, steps));
  const auto image = x.contiguous(at::MemoryFormat::ChannelsLast);
  if (wants_gradients(x, layer))
    return OneOperation<Conv>::apply(image, layer.weight, layer.bias, used(x, layer, steps));
  return Conv::forward(image, used(x, layer, steps));
}

int64_t winograd_scratch(const at::Tensor& weight, ConvSteps steps, int64_t height, int64_t width) {
  const Winograd layer = tiles_of(1, height, width, weight, steps);
  return is_3x3(weight, steps) && suits_winograd(layer) ? winograd_scratch(layer) : 0;
}

at::Tensor linear_relu(const at::Tensor& x, const LayerWeights& layer) {
  return dense_layer<true>(x, layer);
}

at::Tensor linear_alone(const at::Tensor& x, const LayerWeights& layer) {
  return dense_layer<false>(x, layer);
}

at::Tensor product(const at::Tensor& x, const at::Tensor& weight) {
  return onednn_has(x) ? onednn_linear(x, weight, {}, "none") : at::linear(x, weight);
}

namespace kernels::relu_layers {
KernelEntry entry() {
  return {"relu_layers", "convolutions and dense layers with their ReLU, in f32 and bf16",
          relu_layers_cases};
}
}  // namespace kernels::relu_layers

}  // namespace maglev
