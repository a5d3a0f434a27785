#include "verbs/kernels/results.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/core/error.h"

namespace maglev::verbs::kernels {
namespace {

Tensors leaves_of(const Tensors& inputs, at::ScalarType dtype) {
  Tensors leaves;
  for (const at::Tensor& input : inputs)
    leaves.push_back(
        input.detach().to(dtype, /*non_blocking=*/false, /*copy=*/true).set_requires_grad(true));
  return leaves;
}

Tensors draw_gradients(const Tensors& outputs) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t(1));
  Tensors drawn;
  for (const at::Tensor& output : outputs)
    drawn.push_back(output.requires_grad()
                        ? at::randn(output.sizes(), generator, at::kFloat).to(output.options())
                        : at::Tensor());
  return drawn;
}

// by autograd; an input no output depends on has gradient 0
Tensors gradients_of(const Results& results, const Tensors& leaves) {
  Tensors roots, grads;
  for (size_t i = 0; i < results.output_grads.size(); ++i) {
    const at::Tensor& grad = results.output_grads[i];
    if (!grad.defined()) continue;
    const at::Tensor& output = results.outputs[i];
    if (!output.requires_grad())
      throw Error("[kernels] output " + std::to_string(i) +
                  " must have a gradient as the reference's has, got none");
    roots.push_back(output);
    grads.push_back(grad.to(output.options()));
  }
  Tensors gradients = torch::autograd::grad(roots, leaves, grads, /*retain_graph=*/std::nullopt,
                                            /*create_graph=*/false, /*allow_unused=*/true);
  for (size_t i = 0; i < gradients.size(); ++i)
    if (!gradients[i].defined()) gradients[i] = at::zeros_like(leaves[i]);
  return gradients;
}

void detach(Tensors& outputs) {
  for (at::Tensor& output : outputs) output = output.detach();
}

}  // namespace

Results reference_results(const KernelCase& kernel_case, at::ScalarType dtype) {
  at::AutoGradMode with_gradients(!kernel_case.inputs.empty());
  const Tensors leaves = leaves_of(kernel_case.inputs, dtype);
  Results results{.outputs = kernel_case.reference(leaves)};
  results.output_grads = draw_gradients(results.outputs);
  if (!leaves.empty()) results.gradients = gradients_of(results, leaves);
  detach(results.outputs);
  return results;
}

Results fused_results(const KernelCase& kernel_case, const Tensors& output_grads) {
  const bool by_autograd = !kernel_case.inputs.empty() && !kernel_case.backward;
  at::AutoGradMode with_gradients(by_autograd);
  const Tensors leaves = leaves_of(kernel_case.inputs, at::kFloat);
  Results results{.outputs = kernel_case.fused(leaves), .output_grads = output_grads};
  // another number of outputs is for who compares them to say
  if (results.outputs.size() != output_grads.size()) return results;
  if (by_autograd) results.gradients = gradients_of(results, leaves);
  if (kernel_case.backward) {
    Tensors grads;
    for (const at::Tensor& grad : output_grads)
      grads.push_back(grad.defined() ? grad.to(at::kFloat) : grad);
    results.gradients = kernel_case.backward(leaves, grads);
    if (results.gradients.size() != leaves.size())
      throw Error("[kernels] backward must give " + std::to_string(leaves.size()) +
                  " gradients, one an input, got " + std::to_string(results.gradients.size()));
  }
  detach(results.outputs);
  return results;
}

}  // namespace maglev::verbs::kernels
