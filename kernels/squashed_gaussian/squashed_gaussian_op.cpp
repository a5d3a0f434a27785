// Cases of the panel kernels; on tensors, the policy is a few lines of ATen.

#include "kernels/squashed_gaussian/squashed_gaussian.h"

#include <string>

#include <ATen/ATen.h>

#include "base/simd/panel.h"
#include "engine/device/kernel.h"

namespace maglev {
namespace {

at::Tensor to_panel(const at::Tensor& rows) {
  auto panel = at::zeros({rows.size(1), kPanelRows});
  panel.narrow(1, 0, rows.size(0)).copy_(rows.detach().t());
  return panel;
}

at::Tensor to_rows(const at::Tensor& panel, int64_t rows) {
  return panel.narrow(1, 0, rows).t().contiguous();
}

struct Panels {
  at::Tensor head, noise, action, entropy, scaled_entropy;
};

Panels draw(const at::Tensor& head, const at::Tensor& noise) {
  const int64_t A = noise.size(1);
  Panels p{to_panel(head), to_panel(noise), at::empty({A, kPanelRows}), at::empty({1, kPanelRows}),
           at::empty({1, kPanelRows})};
  squashed_gaussian_cpu({.actions = A,
                         .head = p.head.const_data_ptr<float>(),
                         .noise = p.noise.const_data_ptr<float>(),
                         .action = p.action.data_ptr<float>(),
                         .entropy = p.entropy.data_ptr<float>(),
                         .scaled_entropy = p.scaled_entropy.data_ptr<float>(),
                         .stride = kPanelRows});
  return p;
}

// action [rows, A], entropy [rows] without a gradient, sum of the scaled entropy
Tensors squashed_reference(const at::Tensor& head, const at::Tensor& normals) {
  const int64_t A = normals.size(1);
  const LogStdBounds bounds;
  auto noise = normals.to(head.scalar_type());
  auto mean = head.narrow(1, 0, A), spread = head.narrow(1, A, A);
  auto log_std = bounds.low + 0.5 * (bounds.high - bounds.low) * (at::tanh(spread) + 1);
  auto action = at::tanh(mean + noise * at::exp(log_std));
  auto gauss = (-0.5 * noise.square() - log_std - 0.91893853320467274).sum(1);
  auto squash = at::log(at::relu(1 - action.square()) + 1e-6).sum(1);
  return {action, (squash - gauss).detach(), (-double(A) * gauss).sum()};
}

std::vector<KernelCase> squashed_gaussian_cases(at::Device device) {
  std::vector<KernelCase> list;
  if (!device.is_cpu()) return list;
  for (auto [rows, A] : {std::pair<int64_t, int64_t>{1, 1}, {17, 4}, {64, 8}}) {
    auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(rows));
    // actions well inside (-1, 1): at its ends the entropy hangs on an action's last bit
    auto head = at::randn({rows, 2 * A}, gen) * 0.4, noise = at::randn({rows, A}, gen);
    const auto backward = [=](const Tensors& in, const Tensors& grad) {
      const Panels p = draw(in[0], noise);
      auto d_action = to_panel(grad[0]), d_head = at::empty({2 * A, kPanelRows});
      squashed_gaussian_grad_cpu({.actions = A,
                                  .head = p.head.const_data_ptr<float>(),
                                  .noise = p.noise.const_data_ptr<float>(),
                                  .action = p.action.const_data_ptr<float>(),
                                  .d_action = d_action.const_data_ptr<float>(),
                                  .d_scaled_entropy = grad[2].item<float>(),
                                  .d_head = d_head.data_ptr<float>(),
                                  .stride = kPanelRows,
                                  .rows = rows});
      return Tensors{to_rows(d_head, rows)};
    };
    list.push_back(
        {.name = "rows=" + std::to_string(rows) + " actions=" + std::to_string(A),
         .inputs = {head},
         .reference = [=](const Tensors& in) { return squashed_reference(in[0], noise); },
         .fused =
             [=](const Tensors& in) {
               const Panels p = draw(in[0], noise);
               return Tensors{to_rows(p.action, rows), to_rows(p.entropy, rows).squeeze(1),
                              to_rows(p.scaled_entropy, rows).sum()};
             },
         .backward = backward,
         .tolerance = 2e-5,
         .bytes = rows * A * 16,
         .flops = rows * A * 90});
  }
  return list;
}

}  // namespace

namespace kernels::squashed_gaussian {
KernelEntry entry() {
  return {"squashed_gaussian", "actions and entropies of a Gaussian squashed by tanh",
          squashed_gaussian_cases};
}
}  // namespace kernels::squashed_gaussian

}  // namespace maglev
