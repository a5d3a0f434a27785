#include "algos/dreamer/layers.h"

#include <cmath>
#include <string>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace maglev::dreamer {
namespace {

constexpr int64_t kWindow = 5;

// within two deviations; the factor gives back what cutting takes of the width
at::Tensor first_weight(const std::vector<int64_t>& sizes, int64_t inputs, double scale,
                        Initializer& init) {
  constexpr double kLimit = 2, kUncut = 1.1368472;
  auto weight = init.weight(sizes);
  init.truncated_normal(weight, scale * kUncut / std::sqrt(double(inputs)), kLimit);
  return weight;
}

}  // namespace

Dense::Dense(int64_t in, int64_t out, Initializer& init, double scale, bool with_bias)
    : weight_(register_parameter("weight", first_weight({out, in}, in, scale, init))) {
  if (with_bias) bias_ = register_parameter("bias", init.weight({out}));
}

at::Tensor Dense::forward(const at::Tensor& x) const { return at::linear(x, weight_, bias_); }

// the inputs of all blocks count, as published
BlockDense::BlockDense(int64_t in, int64_t out, int64_t blocks, Initializer& init)
    : weight_(register_parameter("weight",
                                 first_weight({blocks, in / blocks, out / blocks}, in, 1, init))),
      bias_(register_parameter("bias", init.weight({out}))) {}

at::Tensor BlockDense::forward(const at::Tensor& x) const {
  const int64_t blocks = weight_.size(0);
  return at::baddbmm(bias_.view({blocks, 1, -1}), x.transpose(0, 1), weight_).transpose(0, 1);
}

Convolution::Convolution(int64_t in, int64_t out, Initializer& init)
    : weight_(register_parameter(
          "weight", first_weight({out, in, kWindow, kWindow}, in * kWindow * kWindow, 1, init))),
      bias_(register_parameter("bias", init.weight({out}))) {}

NormSilu::NormSilu(int64_t n, Initializer& init)
    : scale_(register_parameter("scale", at::ones_like(init.weight({n})))) {}

at::Tensor NormSilu::forward(const at::Tensor& x) const {
  return at::silu(at::rms_norm(x, {x.size(-1)}, scale_, kNormEps));
}

Mlp::Mlp(int64_t in, int64_t layers, int64_t units, Initializer& init) {
  for (int64_t i = 0; i < layers; ++i) {
    const std::string name = std::to_string(i);
    dense_.push_back(
        register_module("dense" + name, std::make_shared<Dense>(i == 0 ? in : units, units, init)));
    norm_.push_back(register_module("norm" + name, std::make_shared<NormSilu>(units, init)));
  }
}

at::Tensor Mlp::forward(at::Tensor x) const {
  for (size_t i = 0; i < dense_.size(); ++i) x = norm_[i]->forward(dense_[i]->forward(x));
  return x;
}

Head::Head(const HeadShape& s, Initializer& init)
    : hidden_(register_module("hidden", std::make_shared<Mlp>(s.in, s.layers, s.units, init))),
      out_(register_module("out", std::make_shared<Dense>(s.units, s.out, init, s.scale))) {}

}  // namespace maglev::dreamer
