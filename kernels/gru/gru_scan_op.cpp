#include "kernels/gru/gru_scan_op.h"

#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/gru/gru_op.h"

namespace maglev {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// What a scan leaves for the way back.
struct GruSteps {
  at::Tensor gates;   ///< [L, B, 3 * H], without their bias
  at::Tensor before;  ///< [L, B, H]: what each step begins with
  at::Tensor behind;  ///< [L, B, H]
};

GruSteps gru_steps(const GruScan& s) {
  const int64_t L = s.products.size(0), B = s.products.size(1), H = s.weight.size(1);
  GruSteps steps{at::empty_like(s.products), at::empty({L, B, H}, s.h.options()),
                 at::empty({L, B, H}, s.h.options())};
  const at::Tensor weight = s.weight.t();
  at::Tensor begin = steps.before[0];
  at::mul_out(begin, s.h, s.keep[0].unsqueeze(1));
  for (int64_t l = 0; l < L; ++l) {
    at::Tensor gates = steps.gates[l], behind = steps.behind[l];
    at::addmm_out(gates, s.products[l], begin, weight);
    CarriedRows carried;
    if (l + 1 < L) carried = {steps.before[l + 1], s.keep[l + 1]};
    gru({gates.unsqueeze(0), s.bias, begin}, behind, carried);
    begin = carried.rows;
  }
  return steps;
}

class GruScanFunction : public torch::autograd::Function<GruScanFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& products,
                            const at::Tensor& bias, const at::Tensor& weight, const at::Tensor& h,
                            const at::Tensor& keep) {
    const GruSteps steps = gru_steps({products, bias, weight, h, keep});
    context->save_for_backward({steps.gates, steps.before, bias, weight, keep});
    return steps.behind;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &gates = saved[0], &before = saved[1], &bias = saved[2], &weight = saved[3],
                     &keep = saved[4];
    const at::Tensor d_behind = grads[0].contiguous();
    const int64_t L = gates.size(0);
    at::Tensor d_gates = at::empty_like(gates), d_h = at::zeros_like(before[0]);
    for (int64_t l = L - 1; l >= 0; --l) {
      // by the next step's loss and by what was carried on to it
      at::Tensor d_step = d_gates[l].unsqueeze(0);
      CarriedRows carried;
      if (l + 1 < L) carried = {d_h, keep[l + 1]};
      gru_back({gates[l].unsqueeze(0), bias, before[l]}, d_behind[l], d_step, d_h, carried);
      d_h.addmm_(d_gates[l], weight);
    }
    // of all steps at once
    const at::Tensor rows = d_gates.flatten(0, 1);
    return {d_gates, rows.sum(0), rows.t().mm(before.flatten(0, 1)), d_h * keep[0].unsqueeze(1),
            at::Tensor()};
  }
};

}  // namespace

at::Tensor gru_scan(const GruScan& s) {
  if (!at::GradMode::is_enabled()) return gru_steps(s).behind;
  return GruScanFunction::apply(s.products, s.bias, s.weight, s.h, s.keep);
}

at::Tensor gru_scan_reference(const GruScan& s) {
  std::vector<at::Tensor> behind;
  at::Tensor h = s.h;
  for (int64_t l = 0; l < s.products.size(0); ++l) {
    h = h * s.keep[l].unsqueeze(1);
    const auto gates = s.products[l] + at::linear(h, s.weight) + s.bias;
    h = gru_reference(gates.unsqueeze(0), h);
    behind.push_back(h);
  }
  return at::stack(behind);
}

}  // namespace maglev
