#include "kernels/squashed_gaussian/squashed_gaussian_op.h"

#include <cmath>
#include <string>

#include <ATen/ATen.h>

#include "base/config/choice.h"
#include "base/core/error.h"
#include "base/simd/panel.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"

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

Panels draw(const at::Tensor& head, const at::Tensor& noise, EntropyOf entropy_of) {
  const int64_t A = noise.size(1);
  Panels p{to_panel(head), to_panel(noise), at::empty({A, kPanelRows}), at::empty({1, kPanelRows}),
           at::empty({1, kPanelRows})};
  squashed_gaussian_cpu({.entropy_of = entropy_of,
                         .actions = A,
                         .head = p.head.const_data_ptr<float>(),
                         .noise = p.noise.const_data_ptr<float>(),
                         .action = p.action.data_ptr<float>(),
                         .entropy = p.entropy.data_ptr<float>(),
                         .scaled_entropy = p.scaled_entropy.data_ptr<float>(),
                         .stride = kPanelRows});
  return p;
}

// action [rows, A], entropy [rows] without a gradient, sum of the scaled entropy
Tensors squashed_reference(const at::Tensor& head, const at::Tensor& normals,
                           EntropyOf entropy_of) {
  const int64_t A = normals.size(1);
  const LogStdBounds bounds;
  auto noise = normals.to(head.scalar_type());
  auto mean = head.narrow(1, 0, A), spread = head.narrow(1, A, A);
  auto log_std = bounds.low + 0.5 * (bounds.high - bounds.low) * (at::tanh(spread) + 1);
  auto drawn = mean + noise * at::exp(log_std), action = at::tanh(drawn);
  auto gauss = (-0.5 * noise.square() - log_std - 0.91893853320467274).sum(1);
  // log(1 - tanh(x)^2) = 2 (log 2 - x - softplus(-2 x)), exact where tanh is 1
  const bool of_action = entropy_of == EntropyOf::action;
  auto squash = (of_action ? 2 * (std::log(2.0) - drawn - at::softplus(-2 * drawn))
                           : at::log(at::relu(1 - action.square()) + 1e-6))
                    .sum(1);
  auto entropy = squash - gauss;
  return {action, entropy.detach(), (double(A) * (of_action ? entropy : -gauss)).sum()};
}

std::string case_name(int64_t rows, int64_t A, EntropyOf entropy_of) {
  return "rows=" + std::to_string(rows) + " actions=" + std::to_string(A) + " entropy of " +
         name_of(entropy_of);
}

/// The gradient of the action's has tanh's rounding in it, times A and the width of the bounds.
double tolerance_of(EntropyOf entropy_of) { return entropy_of == EntropyOf::action ? 1e-4 : 2e-5; }

// on rows; entropies count by weights, each row's its own
KernelCase squashed_rows_case(int64_t rows, int64_t A, EntropyOf entropy_of, at::Device device) {
  constexpr double kScale = 0.3;
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(rows + A));
  auto head = (at::randn({rows, 2 * A}, gen) * 0.4).to(device);
  // also where tanh is flat
  if (entropy_of == EntropyOf::action) head.narrow(1, 0, A).mul_(40);
  auto noise = at::randn({rows, A}, gen).to(device), weight = at::rand({rows}, gen).to(device);
  return {.name = "rows one behind the other " + case_name(rows, A, entropy_of),
          .inputs = {head},
          .reference =
              [=](const Tensors& in) {
                // row by row, for each has a weight
                Tensors action, entropy, total;
                for (int64_t r = 0; r < rows; ++r) {
                  auto one =
                      squashed_reference(in[0].narrow(0, r, 1), noise.narrow(0, r, 1), entropy_of);
                  action.push_back(one[0]), entropy.push_back(one[1]);
                  total.push_back(one[2] * weight[r] * kScale);
                }
                return Tensors{at::cat(action), at::cat(entropy), at::stack(total).sum()};
              },
          .fused =
              [=](const Tensors& in) {
                const SquashedDraw d = squashed_draw(in[0].detach(), noise, {}, entropy_of);
                return Tensors{d.action, d.entropy, (d.scaled_entropy * weight).sum() * kScale};
              },
          .backward =
              [=](const Tensors& in, const Tensors& grad) {
                const SquashedDraw d = squashed_draw(in[0].detach(), noise, {}, entropy_of);
                return Tensors{squashed_draw_back(d, grad[0].contiguous(), weight * grad[2], kScale,
                                                  {}, entropy_of)};
              },
          .tolerance = tolerance_of(entropy_of),
          .bytes = rows * A * 16,
          .flops = rows * A * 90};
}

// a panel
KernelCase squashed_panel_case(int64_t rows, int64_t A, EntropyOf entropy_of) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(rows));
  // actions well inside (-1, 1): at its ends the entropy hangs on an action's last bit
  auto head = at::randn({rows, 2 * A}, gen) * 0.4, noise = at::randn({rows, A}, gen);
  // the action's own counts there too
  if (entropy_of == EntropyOf::action) head.narrow(1, 0, A).mul_(40);
  const auto backward = [=](const Tensors& in, const Tensors& grad) {
    const Panels p = draw(in[0], noise, entropy_of);
    auto d_action = to_panel(grad[0]), d_head = at::empty({2 * A, kPanelRows});
    squashed_gaussian_grad_cpu({.entropy_of = entropy_of,
                                .actions = A,
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
  return {
      .name = case_name(rows, A, entropy_of),
      .inputs = {head},
      .reference = [=](const Tensors& in) { return squashed_reference(in[0], noise, entropy_of); },
      .fused =
          [=](const Tensors& in) {
            const Panels p = draw(in[0], noise, entropy_of);
            return Tensors{to_rows(p.action, rows), to_rows(p.entropy, rows).squeeze(1),
                           to_rows(p.scaled_entropy, rows).sum()};
          },
      .backward = backward,
      .tolerance = tolerance_of(entropy_of),
      .bytes = rows * A * 16,
      .flops = rows * A * 90};
}

constexpr EntropyOf kEntropies[] = {EntropyOf::gaussian, EntropyOf::action};

std::vector<KernelCase> squashed_gaussian_cases(at::Device device) {
  std::vector<KernelCase> list;
  for (auto [rows, A] : {std::pair<int64_t, int64_t>{1, 1}, {17, 4}, {140, 3}})
    for (EntropyOf entropy_of : kEntropies)
      list.push_back(squashed_rows_case(rows, A, entropy_of, device));
  if (!device.is_cpu()) return list;
  for (auto [rows, A] : {std::pair<int64_t, int64_t>{1, 1}, {17, 4}, {64, 8}})
    for (EntropyOf entropy_of : kEntropies)
      list.push_back(squashed_panel_case(rows, A, entropy_of));
  return list;
}

}  // namespace

SquashedDraw squashed_draw(const at::Tensor& head, const at::Tensor& noise,
                           const LogStdBounds& bounds, EntropyOf entropy_of) {
  const at::Device device = device_of("squashed_gaussian", head, noise);
  const int64_t rows = noise.size(0), A = noise.size(1);
  MAGLEV_ASSERT(head.is_contiguous() && noise.is_contiguous() && head.numel() == 2 * rows * A,
                "means and spreads of each row");
  auto of_rows = [&] { return at::empty({rows}, head.options()); };
  SquashedDraw draw{head, noise, at::empty_like(noise), of_rows(), of_rows()};
  const SquashedGaussianRows args{.bounds = bounds,
                                  .entropy_of = entropy_of,
                                  .rows = rows,
                                  .actions = A,
                                  .head = head.const_data_ptr<float>(),
                                  .noise = noise.const_data_ptr<float>(),
                                  .action = draw.action.data_ptr<float>(),
                                  .entropy = draw.entropy.data_ptr<float>(),
                                  .scaled_entropy = draw.scaled_entropy.data_ptr<float>()};
  launch<squashed_gaussian_rows_cuda>("squashed_gaussian", device, squashed_gaussian_rows_cpu,
                                      args);
  return draw;
}

at::Tensor squashed_draw_back(const SquashedDraw& draw, const at::Tensor& d_action,
                              const at::Tensor& d_scaled_entropy, double scale,
                              const LogStdBounds& bounds, EntropyOf entropy_of) {
  const at::Device device = device_of("squashed_gaussian", draw.head, d_action, d_scaled_entropy);
  MAGLEV_ASSERT(d_action.is_contiguous() && d_action.sizes() == draw.action.sizes() &&
                    d_scaled_entropy.is_contiguous(),
                "gradients of each row");
  auto d_head = at::empty_like(draw.head);
  const SquashedGaussianRowsGrad args{.bounds = bounds,
                                      .entropy_of = entropy_of,
                                      .rows = draw.noise.size(0),
                                      .actions = draw.noise.size(1),
                                      .head = draw.head.const_data_ptr<float>(),
                                      .noise = draw.noise.const_data_ptr<float>(),
                                      .action = draw.action.const_data_ptr<float>(),
                                      .d_action = d_action.const_data_ptr<float>(),
                                      .d_scaled_entropy = d_scaled_entropy.const_data_ptr<float>(),
                                      .cycle = d_scaled_entropy.numel(),
                                      .scale = float(scale),
                                      .d_head = d_head.data_ptr<float>()};
  launch<squashed_gaussian_rows_grad_cuda>("squashed_gaussian_grad", device,
                                           squashed_gaussian_rows_grad_cpu, args);
  return d_head;
}

namespace kernels::squashed_gaussian {
KernelEntry entry() {
  return {"squashed_gaussian", "actions and entropies of a Gaussian squashed by tanh",
          squashed_gaussian_cases};
}
}  // namespace kernels::squashed_gaussian

}  // namespace maglev
