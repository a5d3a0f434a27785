#include "verbs/kernels/parity.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <unistd.h>

#include <ATen/ATen.h>
#include <torch/cuda.h>

#include "base/core/error.h"
#include "base/core/printed.h"
#include "engine/device/device.h"
#include "verbs/table.h"

namespace maglev::verbs::kernels {
namespace {

std::string described(const at::Tensor& tensor) {
  std::string text = std::string(at::toString(tensor.scalar_type())) + " [";
  for (int64_t i = 0; i < tensor.dim(); ++i)
    text += (i ? ", " : "") + std::to_string(tensor.size(i));
  return text + "]";
}

int64_t different_elements(const at::Tensor& a, const at::Tensor& b) {
  // by bytes: equal NaN are equal, and 0 is not -0
  const auto* left = static_cast<const std::byte*>(a.const_data_ptr());
  const auto* right = static_cast<const std::byte*>(b.const_data_ptr());
  const size_t bytes = a.element_size();
  int64_t count = 0;
  for (int64_t i = 0; i < a.numel(); ++i)
    count += std::memcmp(left + size_t(i) * bytes, right + size_t(i) * bytes, bytes) != 0;
  return count;
}

}  // namespace

Parity compare(const Tensors& expected, const Tensors& came, const Tolerance& tolerance,
               const char* what) {
  Parity parity;
  if (expected.size() != came.size()) {
    parity.problem = "expected " + std::to_string(expected.size()) + " " + what + "s, got " +
                     std::to_string(came.size());
    return parity;
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const at::Tensor a = expected[i].cpu().contiguous(), b = came[i].cpu().contiguous();
    if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) {
      parity.problem = std::string(what) + " " + std::to_string(i) + " must be " + described(a) +
                       ", got " + described(b);
      return parity;
    }
    parity.elements += a.numel();
    parity.different += different_elements(a, b);
    if (tolerance.share > 0) parity.share = std::max(parity.share, share_used(a, b, tolerance));
  }
  // a tolerance of 0 is broken by any difference
  if (tolerance.share == 0 && parity.different > 0)
    parity.share = std::numeric_limits<double>::infinity();
  parity.ok = parity.share <= 1;
  return parity;
}

Parity check_parity(const KernelCase& kernel_case, double scale) {
  return check_parity(kernel_case, reference_results(kernel_case), scale);
}

Parity check_parity(const KernelCase& kernel_case, const Results& expected, double scale) {
  // both sides go back from the same gradients of the outputs
  const Results came = fused_results(kernel_case, expected.output_grads);
  const Tolerance tolerance = kernel_case.tolerance * scale;
  Parity parity = compare(expected.outputs, came.outputs, tolerance, "output");
  if (!parity.problem.empty()) return parity;
  const Parity backward = compare(expected.gradients, came.gradients, tolerance, "gradient");
  // outputs and gradients as one, by the larger share
  parity.ok = parity.ok && backward.ok;
  parity.share = std::max(parity.share, backward.share);
  parity.different += backward.different;
  parity.elements += backward.elements;
  parity.problem = backward.problem;
  return parity;
}

std::string parity_text(const Parity& parity, const Tolerance& tolerance) {
  if (!parity.problem.empty()) return parity.problem;
  if (parity.different == 0) return "equal bit for bit";
  const std::string different = std::to_string(parity.different) + " of " +
                                std::to_string(parity.elements) + " differ in bits";
  if (tolerance.share == 0) return different + ", none may";
  return printed("%.3g%% of tolerance %.3g%s, ", 100 * parity.share, tolerance.share,
                 tolerance.of_largest ? " of the largest" : "") +
         different;
}

std::vector<at::Device> case_devices(const std::optional<std::string>& only) {
  std::vector<at::Device> devices{at::kCPU};
  if (kDeviceCode && torch::cuda::is_available()) devices.emplace_back(at::kCUDA, 0);
  if (!only) return devices;
  if (*only != "cpu" && *only != "cuda")
    throw Error("[kernels] --device must be cpu or cuda, got '" + *only + "'");
  std::erase_if(devices, [&](const at::Device& d) { return d.is_cpu() != (*only == "cpu"); });
  if (devices.empty())
    throw Error("[kernels] --device cuda: this build or machine has none; maglev doctor says more");
  return devices;
}

std::string without_cases(const std::vector<KernelEntry>& kernels,
                          const std::vector<at::Device>& devices) {
  if (!devices.back().is_cpu()) return "";
  std::string names;
  for (const KernelEntry& kernel : kernels)
    if (kernel.device_only) names += (names.empty() ? "" : ", ") + std::string(kernel.name);
  return names.empty() ? "" : "for a GPU alone: " + names + "\n";
}

double tolerance_scale() {
  const char* text = std::getenv("MAGLEV_TOL_SCALE");
  if (!text || !*text) return 1;
  char* end = nullptr;
  const double scale = std::strtod(text, &end);
  if (*end != 0 || !(scale >= 0) || std::isinf(scale))
    throw Error("[kernels] MAGLEV_TOL_SCALE must be a number >= 0, got '" + std::string(text) +
                "'");
  return scale;
}

int print_checks(const std::vector<KernelEntry>& kernels, const std::vector<at::Device>& devices,
                 const char* checked, const std::function<Checked(const KernelCase&)>& check) {
  Table table({"kernel", "device", "case", "", "difference"});
  int cases = 0, failed = 0;
  for (const KernelEntry& kernel : kernels)
    for (const at::Device& device : devices)
      for (const KernelCase& one : kernel.cases(device)) {
        Checked found;
        try {
          found = check(one);
        } catch (const std::exception& e) {
          // its first line, without the backtrace of torch's
          const std::string text = e.what();
          found = {.ok = false, .text = "threw: " + text.substr(0, text.find('\n'))};
        }
        const char* verdict = !found.ok ? "-" : *found.ok ? "ok" : "FAILED";
        table.add({kernel.name, device.str(), one.name, verdict, found.text});
        cases += found.ok.has_value();
        failed += !found.ok.value_or(true);
      }
  print(table.text(probe_terminal(STDOUT_FILENO)));
  print("\n" + counted(cases, "case") + checked + ", " + std::to_string(failed) + " failed\n" +
        without_cases(kernels, devices));
  return failed > 0 ? 1 : 0;
}

int print_parity(const std::vector<KernelEntry>& kernels, const std::vector<at::Device>& devices) {
  const double scale = tolerance_scale();
  return print_checks(kernels, devices, "", [&](const KernelCase& one) -> Checked {
    const Parity parity = check_parity(one, scale);
    return {.ok = parity.ok, .text = parity_text(parity, one.tolerance * scale)};
  });
}

}  // namespace maglev::verbs::kernels
