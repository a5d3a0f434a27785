#include "engine/nn/activation.h"

#include <ATen/ATen.h>

#include "kernels/tanh/tanh_op.h"

namespace maglev {

at::Tensor activate(at::Tensor x, const Nonlinearity& nonlinearity) {
  switch (nonlinearity.activation) {
    case HiddenActivation::relu:
      return x.relu_();
    case HiddenActivation::silu:
      return at::silu(x);
    case HiddenActivation::tanh:
      break;
  }
  // in reduced precision products are not f32, which is all the kernel knows
  return nonlinearity.fast_tanh && x.scalar_type() == at::kFloat ? fast_tanh_(x) : x.tanh_();
}

}  // namespace maglev
