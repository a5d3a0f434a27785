#include "engine/nn/linear.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "engine/device/aten_only.h"
#include "kernels/products/products_op.h"

namespace maglev {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// outputs that leave most of a library's tile empty: heads of a policy, a value
constexpr int64_t kNarrow = 16;

at::Tensor narrow_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  auto y = at::empty({x.size(0), weight.size(0)}, x.options());
  y.copy_(bias);
  add_product(y, x, weight.t().contiguous());
  return y;
}

/// A layer of few outputs for autograd, without ATen's views and copies.
class NarrowLinear : public torch::autograd::Function<NarrowLinear> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias) {
    context->save_for_backward({x, weight});
    return narrow_product(x, weight, bias);
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], dy = grad[0].contiguous();
    at::Tensor dx;
    if (context->needs_input_grad(0)) {
      dx = at::empty_like(x);
      write_product(dx, dy, weight);
    }
    auto d_weight = at::empty_like(weight);
    write_product(d_weight, dy.t(), x);
    return {dx, d_weight, dy.sum(0)};
  }
};

bool is_narrow(const at::Tensor& x, const at::Tensor& weight) {
  return x.is_cpu() && x.dim() == 2 && x.numel() > 0 && weight.size(0) <= kNarrow &&
         x.scalar_type() == at::kFloat && weight.scalar_type() == at::kFloat &&
         (weight.size(0) == 1 || !at::autocast::is_autocast_enabled(at::kCPU));
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (AtenOnly::on()) return at::linear(x, weight, bias);
  if (is_narrow(x, weight)) {
    const auto rows = x.contiguous(), together = weight.contiguous();
    const bool learns = at::GradMode::is_enabled() && (x.requires_grad() || weight.requires_grad());
    return learns ? NarrowLinear::apply(rows, together, bias)
                  : narrow_product(rows, together, bias);
  }
  if (weight.size(0) > 1 || !x.is_cpu()) return at::linear(x, weight, bias);
  return (x * weight).sum(1, /*keepdim=*/true) + bias;
}

}  // namespace maglev
