#include "engine/nn/linear.h"

#include <ATen/ATen.h>

namespace maglev {

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (weight.size(0) > 1 || !x.is_cpu()) return at::linear(x, weight, bias);
  return (x * weight).sum(1, /*keepdim=*/true) + bias;
}

}  // namespace maglev
