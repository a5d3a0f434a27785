#include "kernels/relu_norm/relu_norm_op.h"

#include <cmath>
#include <string>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "engine/device/precision.h"
#include "kernels/relu_layers/relu_layers_op.h"
#include "kernels/relu_norm/relu_norm.h"

namespace maglev {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr double kReluNormEps = 1e-5;

class ReluNorm : public torch::autograd::Function<ReluNorm> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const at::Tensor& gain, const at::Tensor& shift,
                            bool past) {
    const at::Device device = device_of("relu_norm", x, weight, bias, gain, shift);
    const int64_t rows = x.size(0), width = weight.size(0);
    MAGLEV_ASSERT(x.scalar_type() == at::kFloat && x.is_contiguous(), "rows of f32");
    MAGLEV_ASSERT(!past || x.size(1) == width, "what goes past a layer is as wide as it");

    // the product, which becomes what relu leaves
    const auto type = product_type(device);
    const auto in = x.to(type), with = weight.to(type);
    auto a = product(in, with).to(at::kFloat);

    auto out = at::empty_like(a);
    auto mean = at::empty({rows}, x.options()), inverse = at::empty({rows}, x.options());
    const ReluNormArgs args{.rows = rows,
                            .width = width,
                            .z = a.data_ptr<float>(),
                            .bias = bias.const_data_ptr<float>(),
                            .gain = gain.const_data_ptr<float>(),
                            .shift = shift.const_data_ptr<float>(),
                            .past = past ? x.const_data_ptr<float>() : nullptr,
                            .eps = float(kReluNormEps),
                            .out = out.data_ptr<float>(),
                            .mean = mean.data_ptr<float>(),
                            .inverse = inverse.data_ptr<float>()};
    launch<relu_norm_cuda>("relu_norm", device, relu_norm_cpu, args);
    context->save_for_backward({in, with, a, mean, inverse, gain});
    context->saved_data["past"] = past;
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &a = saved[2], &gain = saved[5];
    const auto g = grad[0].contiguous();
    const int64_t rows = a.size(0), width = a.size(1);

    // through the norm and relu
    auto dz = at::empty_like(a);
    auto sums = at::empty({relu_norm_chunks(rows), 3, width}, a.options());
    const ReluNormBack args{.rows = rows,
                            .width = width,
                            .a = a.const_data_ptr<float>(),
                            .mean = saved[3].const_data_ptr<float>(),
                            .inverse = saved[4].const_data_ptr<float>(),
                            .gain = gain.const_data_ptr<float>(),
                            .d_out = g.const_data_ptr<float>(),
                            .d_z = dz.data_ptr<float>(),
                            .sums = sums.data_ptr<float>()};
    launch<relu_norm_back_cuda>("relu_norm_back", device_of("relu_norm", a, g), relu_norm_back_cpu,
                                args);

    // and the product
    const auto d = dz.to(x.scalar_type());
    const auto d_weight = product(d.t(), x.t()).to(at::kFloat);
    at::Tensor dx;
    if (context->needs_input_grad(0)) {
      dx = product(d, weight.t()).to(at::kFloat);
      if (context->saved_data["past"].toBool()) dx.add_(g);
    }
    const auto sum = sums.sum(0);
    return {dx, d_weight, sum[2], sum[0], sum[1], {}};
  }
};

KernelCase relu_norm_case(int64_t rows, int64_t in, int64_t out, at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(rows * 1000 + out));
  const auto randn = [&](at::IntArrayRef sizes) { return at::randn(sizes, gen); };
  auto x = randn({rows, in}), weight = randn({out, in}) / std::sqrt(double(in));
  // one sign a row and one an output: nothing comes near relu's kink
  const auto one_sign = [](at::Tensor& t) {
    t.abs_().add_(0.1).mul_((at::arange(t.size(0)) % 3 - 0.5).sign().unsqueeze(1));
  };
  one_sign(x), one_sign(weight);
  const auto to = [&](const at::Tensor& t) { return t.to(device); };
  const bool block = in == out;
  const auto layer = [](const Tensors& t) { return ReluNormLayer{t[1], t[2], t[3], t[4]}; };
  return {.name = "rows=" + std::to_string(rows) + " " + std::to_string(in) + " -> " +
                  std::to_string(out) + (block ? " block" : ""),
          .inputs = {to(x), to(weight), to(0.01 * randn({out})), to(1 + 0.3 * randn({out})),
                     to(randn({out}))},
          .reference =
              [=](const Tensors& t) {
                return Tensors{block ? relu_norm_block_reference(t[0], layer(t))
                                     : relu_norm_reference(t[0], layer(t))};
              },
          .fused =
              [=](const Tensors& t) {
                return Tensors{block ? relu_norm_block(t[0], layer(t)) : relu_norm(t[0], layer(t))};
              },
          .tolerance = Tolerance::of_sums(in + 4 * out + rows + 20),
          .bytes = 4 * (rows * (in + 2 * out) + in * out),
          .flops = rows * out * (2 * in + 10)};
}

std::vector<KernelCase> relu_norm_cases(at::Device device) {
  return {relu_norm_case(3, 7, 5, device), relu_norm_case(5, 12, 12, device),
          relu_norm_case(70, 20, 33, device), relu_norm_case(130, 64, 64, device)};
}

}  // namespace

at::Tensor relu_norm(const at::Tensor& x, const ReluNormLayer& l) {
  return ReluNorm::apply(x, l.weight, l.bias, l.gain, l.shift, false);
}

at::Tensor relu_norm_block(const at::Tensor& x, const ReluNormLayer& l) {
  return ReluNorm::apply(x, l.weight, l.bias, l.gain, l.shift, true);
}

at::Tensor relu_norm_reference(const at::Tensor& x, const ReluNormLayer& l) {
  const auto a = at::relu(at::linear(x, l.weight, l.bias));
  return at::layer_norm(a, {a.size(1)}, l.gain, l.shift, kReluNormEps);
}

at::Tensor relu_norm_block_reference(const at::Tensor& x, const ReluNormLayer& l) {
  return x + relu_norm_reference(x, l);
}

namespace kernels::relu_norm {
KernelEntry entry() {
  return {"relu_norm", "a dense layer with LayerNorm behind its ReLU, and what goes past it",
          relu_norm_cases};
}
}  // namespace kernels::relu_norm

}  // namespace maglev
