#include "verbs/kernels/gradient.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "verbs/kernels/parity.h"
#include "verbs/kernels/results.h"

namespace maglev::verbs::kernels {
namespace {

constexpr int64_t kElements = 64;
// between the rounding of f64, which grows as 1 / step, and the third derivative, as step^2
constexpr double kStep = 1e-5;

// the sum over all outputs, weighted as the backward pass weighs them
double weighted_sum(const Tensors& outputs, const Tensors& weights) {
  double sum = 0;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (weights[i].defined()) sum += (outputs[i] * weights[i]).sum().item<double>();
  return sum;
}

// [count] indices from 0 to numel - 1, evenly
at::Tensor spread(int64_t numel) {
  const int64_t count = std::min(numel, kElements);
  return at::linspace(0, double(numel - 1), count, at::kDouble).round().to(at::kLong);
}

// d(weighted sum) / d(element) at `index` of one input; the others stay
at::Tensor differences(const KernelCase& kernel_case, const Results& reference, size_t input,
                       const at::Tensor& index) {
  at::NoGradGuard no_grad;
  Tensors inputs;
  for (const at::Tensor& x : kernel_case.inputs)
    inputs.push_back(x.to(at::kDouble).contiguous().clone());
  at::Tensor moved = inputs[input].view(-1);
  at::Tensor result = at::empty(index.sizes(), at::kDouble);
  for (int64_t k = 0; k < index.size(0); ++k) {
    at::Tensor element = moved[index[k].item<int64_t>()];
    const double at_rest = element.item<double>();
    element.fill_(at_rest + kStep);
    const double above = weighted_sum(kernel_case.reference(inputs), reference.output_grads);
    element.fill_(at_rest - kStep);
    const double below = weighted_sum(kernel_case.reference(inputs), reference.output_grads);
    element.fill_(at_rest);
    result[k].fill_((above - below) / (2 * kStep));
  }
  return result;
}

std::string gradient_text(const GradientCheck& check, const KernelCase& one, double scale) {
  if (!check.has_gradient) return "no gradient";
  if (!check.reference.ok)
    return "reference against differences: " + parity_text(check.reference, kDifferenceTolerance);
  return parity_text(check.fused, one.tolerance * scale);
}

}  // namespace

GradientCheck check_gradient(const KernelCase& kernel_case, double scale) {
  if (kernel_case.inputs.empty()) return {.has_gradient = false};
  const Results reference = reference_results(kernel_case, at::kDouble);
  Tensors analytic, numeric, rounded;
  for (size_t i = 0; i < reference.gradients.size(); ++i) {
    const at::Tensor& gradient = reference.gradients[i];
    const at::Tensor index = spread(gradient.numel());
    analytic.push_back(gradient.cpu().reshape(-1).index_select(0, index));
    numeric.push_back(differences(kernel_case, reference, i, index));
    rounded.push_back(gradient.to(at::kFloat));
  }
  const Results fused = fused_results(kernel_case, reference.output_grads);
  return {.reference = compare(numeric, analytic, kDifferenceTolerance, "gradient"),
          .fused = compare(rounded, fused.gradients, kernel_case.tolerance * scale, "gradient")};
}

int print_gradients(const std::vector<KernelEntry>& kernels,
                    const std::vector<at::Device>& devices) {
  const double scale = tolerance_scale();
  return print_checks(kernels, devices, " with gradients", [&](const KernelCase& one) -> Checked {
    const GradientCheck check = check_gradient(one, scale);
    return {.ok = check.has_gradient ? std::optional(check.ok()) : std::nullopt,
            .text = gradient_text(check, one, scale)};
  });
}

}  // namespace maglev::verbs::kernels
