#pragma once
#include <array>

#include <ATen/core/Tensor.h>

namespace maglev {

enum class HiddenActivation { tanh, relu, silu };
constexpr auto names_of(HiddenActivation) { return std::array{"tanh", "relu", "silu"}; }

/// What is behind each hidden layer.
struct Nonlinearity {
  HiddenActivation activation = HiddenActivation::tanh;
  bool fast_tanh = true;  ///< tanh of f32 by kernels/tanh; false: ATen's, its reference
};

/// The activation of `x`, in its place where there is such an operation.
at::Tensor activate(at::Tensor x, const Nonlinearity& nonlinearity);

}  // namespace maglev
