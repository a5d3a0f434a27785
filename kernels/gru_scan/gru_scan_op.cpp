#include "kernels/gru_scan/gru_scan_op.h"

#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/gru/gru_op.h"
#include "kernels/gru_scan/gru_scan.h"
#include "kernels/products/products_op.h"

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

// on a device one step waits for no other: a product by a library is as good
bool scans_at_once(const at::Tensor& weight, int64_t L) {
  return weight.is_cpu() || (weight.size(1) <= kMostGruScanUnits && L > 1);
}

// rows that begin where the processor's products want them
at::Tensor copied_rows(const at::Tensor& matrix) {
  at::Tensor rows = aligned_rows(matrix);
  return rows.is_same(matrix) ? matrix.contiguous() : rows.copy_(matrix);
}

void scan_at_once(const GruScan& s, const GruSteps& steps) {
  const at::Device device = device_of("gru_scan", s.products, s.bias, s.weight, s.h, s.keep);
  const at::Tensor weight = copied_rows(s.weight.t()), products = s.products.contiguous(),
                   h = s.h.contiguous(), keep = s.keep.contiguous();
  const GruScanArgs args{.L = products.size(0),
                         .B = products.size(1),
                         .H = s.weight.size(1),
                         .products = products.const_data_ptr<float>(),
                         .bias = s.bias.const_data_ptr<float>(),
                         .weight_t = weight.const_data_ptr<float>(),
                         .weight_row = weight.stride(0),
                         .h = h.const_data_ptr<float>(),
                         .keep = keep.const_data_ptr<float>(),
                         .gates = steps.gates.data_ptr<float>(),
                         .before = steps.before.data_ptr<float>(),
                         .behind = steps.behind.data_ptr<float>()};
  launch<gru_scan_cuda>("gru_scan", device, gru_scan_cpu, args);
}

void scan_by_step(const GruScan& s, const GruSteps& steps) {
  const at::Tensor weight = s.weight.t();
  at::Tensor begin = steps.before[0];
  at::mul_out(begin, s.h, s.keep[0].unsqueeze(1));
  for (int64_t l = 0; l < s.products.size(0); ++l) {
    at::Tensor gates = steps.gates[l], behind = steps.behind[l];
    at::addmm_out(gates, s.products[l], begin, weight);
    CarriedRows carried;
    if (l + 1 < s.products.size(0)) carried = {steps.before[l + 1], s.keep[l + 1]};
    gru({gates.unsqueeze(0), s.bias, begin}, behind, carried);
    begin = carried.rows;
  }
}

GruSteps gru_steps(const GruScan& s) {
  const int64_t L = s.products.size(0), B = s.products.size(1), H = s.weight.size(1);
  // the kernels read as far as the sizes of products and weight say
  MAGLEV_ASSERT(s.products.size(2) == 3 * H && s.weight.size(0) == 3 * H &&
                    s.bias.numel() == 3 * H && s.bias.is_contiguous(),
                "three gates for each unit");
  MAGLEV_ASSERT(s.h.sizes() == at::IntArrayRef({B, H}) && s.keep.sizes() == at::IntArrayRef({L, B}),
                "what each sequence remembers, and where it keeps that");
  const auto f32 = s.h.options();
  const GruSteps steps{at::empty({L, B, 3 * H}, f32), at::empty({L, B, H}, f32),
                       at::empty({L, B, H}, f32)};
  scans_at_once(s.weight, L) ? scan_at_once(s, steps) : scan_by_step(s, steps);
  return steps;
}

/// What the way back begins from, and what it finds.
struct GruStepsBack {
  at::Tensor gates, before, bias, weight, keep;
  at::Tensor d_behind;      ///< [L, B, H]
  at::Tensor d_gates, d_h;  ///< [L, B, 3 * H], [B, H], written
};

void scan_back_at_once(const GruStepsBack& s) {
  const at::Device device = device_of("gru_scan", s.gates, s.bias, s.weight, s.d_behind);
  const at::Tensor weight = copied_rows(s.weight), keep = s.keep.contiguous();
  const GruScanBack args{.L = s.gates.size(0),
                         .B = s.gates.size(1),
                         .H = s.weight.size(1),
                         .gates = s.gates.const_data_ptr<float>(),
                         .before = s.before.const_data_ptr<float>(),
                         .bias = s.bias.const_data_ptr<float>(),
                         .keep = keep.const_data_ptr<float>(),
                         .weight = weight.const_data_ptr<float>(),
                         .weight_row = weight.stride(0),
                         .d_behind = s.d_behind.const_data_ptr<float>(),
                         .d_gates = s.d_gates.data_ptr<float>(),
                         .d_h = s.d_h.data_ptr<float>()};
  launch<gru_scan_back_cuda>("gru_scan", device, gru_scan_back_cpu, args);
}

void scan_back_by_step(const GruStepsBack& s) {
  at::Tensor d_h = s.d_h;
  for (int64_t l = s.gates.size(0); l-- > 0;) {
    // by the next step's loss and by what was carried on to it
    at::Tensor d_step = s.d_gates[l].unsqueeze(0);
    CarriedRows carried;
    if (l + 1 < s.gates.size(0)) carried = {d_h, s.keep[l + 1]};
    gru_back({s.gates[l].unsqueeze(0), s.bias, s.before[l]}, s.d_behind[l], d_step, d_h, carried);
    d_h.addmm_(s.d_gates[l], s.weight);
  }
  d_h.mul_(s.keep[0].unsqueeze(1));
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
    const at::Tensor &gates = saved[0], &before = saved[1], &weight = saved[3];
    const GruStepsBack s{.gates = gates,
                         .before = before,
                         .bias = saved[2],
                         .weight = weight,
                         .keep = saved[4],
                         .d_behind = grads[0].contiguous(),
                         .d_gates = at::empty_like(gates),
                         .d_h = at::empty_like(before[0])};
    scans_at_once(weight, gates.size(0)) ? scan_back_at_once(s) : scan_back_by_step(s);
    // of all steps at once
    const at::Tensor rows = s.d_gates.flatten(0, 1), d_weight = at::empty_like(weight);
    write_product(d_weight, rows.t(), before.flatten(0, 1));
    return {s.d_gates, rows.sum(0), d_weight, s.d_h, at::Tensor()};
  }
};

KernelCase gru_scan_case(int64_t L, int64_t B, int64_t H, at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(L * 100 + H));
  const auto randn = [&](at::IntArrayRef sizes) { return at::randn(sizes, gen).to(device); };
  const auto products = randn({L, B, 3 * H}), bias = randn({3 * H}), h = randn({B, H});
  // as initialised: a step's sums are about as large as what is remembered
  const auto weight = randn({3 * H, H}).div_(std::sqrt(double(H)));
  const auto keep = (at::rand({L, B}, gen) < 0.8).to(at::kFloat).to(device);
  const auto scan = [=](const Tensors& in) {
    return GruScan{in[0], in[1], in[2], in[3], keep.to(in[0].dtype())};
  };
  return {
      .name = "L=" + std::to_string(L) + " B=" + std::to_string(B) + " H=" + std::to_string(H),
      .inputs = {products, bias, weight, h},
      .reference = [=](const Tensors& in) { return Tensors{gru_scan_reference(scan(in))}; },
      .fused = [=](const Tensors& in) { return Tensors{gru_scan(scan(in))}; },
      // sums of H or 3 H a step, one behind the other, and weights' over all steps and sequences
      .tolerance = Tolerance::of_sums(L * (4 * H + 16 + B)),
      .bytes = L * B * H * 4 * 9,
      .flops = L * B * H * (6 * H + 60)};
}

std::vector<KernelCase> gru_scan_cases(at::Device device) {
  return {gru_scan_case(1, 1, 1, device), gru_scan_case(7, 5, 3, device),
          gru_scan_case(3, 2, 40, device), gru_scan_case(16, 8, 64, device),
          // the widest that a device scans at once, and one beyond
          gru_scan_case(2, 5, 128, device), gru_scan_case(2, 2, 129, device)};
}

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

namespace kernels::gru_scan {
KernelEntry entry() {
  return {"gru_scan", "a gated recurrent unit through all steps of sequences, with gradients",
          gru_scan_cases};
}
}  // namespace kernels::gru_scan

}  // namespace maglev
