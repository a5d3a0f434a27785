#include "verbs/kernels/parity.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "engine/core/error.h"

namespace maglev::verbs::kernels {
namespace {

std::string described(const at::Tensor& tensor) {
  std::string text = std::string(at::toString(tensor.scalar_type())) + " [";
  for (int64_t i = 0; i < tensor.dim(); ++i) text += (i ? ", " : "") + std::to_string(tensor.size(i));
  return text + "]";
}

int64_t different_elements(const at::Tensor& a, const at::Tensor& b) {
  const auto* left = static_cast<const std::byte*>(a.const_data_ptr());
  const auto* right = static_cast<const std::byte*>(b.const_data_ptr());
  const size_t bytes = a.element_size();
  int64_t count = 0;
  for (int64_t i = 0; i < a.numel(); ++i) count += std::memcmp(left + size_t(i) * bytes, right + size_t(i) * bytes, bytes) != 0;
  return count;
}

// the largest share of the tolerance any element uses
double share_used(const at::Tensor& reference, const at::Tensor& fused, double tolerance) {
  const at::Tensor expected = reference.to(at::kDouble), came = fused.to(at::kDouble);
  const double* e = expected.const_data_ptr<double>();
  const double* c = came.const_data_ptr<double>();
  double worst = 0;
  for (int64_t i = 0; i < expected.numel(); ++i) {
    if (e[i] == c[i] || (std::isnan(e[i]) && std::isnan(c[i]))) continue;
    const double share = std::abs(c[i] - e[i]) / (tolerance * (1 + std::abs(e[i])));
    // a NaN or an infinity on one side only
    worst = std::max(worst, std::isnan(share) ? std::numeric_limits<double>::infinity() : share);
  }
  return worst;
}

}  // namespace

Parity check_parity(const KernelCase& kernel_case, double scale) {
  const auto expected = kernel_case.reference(), came = kernel_case.fused();
  Parity parity;
  if (expected.size() != came.size()) {
    parity.problem = "expected " + std::to_string(expected.size()) + " outputs, got " + std::to_string(came.size());
    return parity;
  }
  const double tolerance = kernel_case.tolerance * scale;
  for (size_t i = 0; i < expected.size(); ++i) {
    const at::Tensor a = expected[i].cpu().contiguous(), b = came[i].cpu().contiguous();
    if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) {
      parity.problem = "output " + std::to_string(i) + " must be " + described(a) + ", got " + described(b);
      return parity;
    }
    parity.elements += a.numel();
    parity.different += different_elements(a, b);
    if (tolerance > 0) parity.share = std::max(parity.share, share_used(a, b, tolerance));
  }
  if (tolerance == 0 && parity.different > 0) parity.share = std::numeric_limits<double>::infinity();
  parity.ok = parity.share <= 1;
  return parity;
}

double tolerance_scale() {
  const char* text = std::getenv("MAGLEV_TOL_SCALE");
  if (!text || !*text) return 1;
  char* end = nullptr;
  const double scale = std::strtod(text, &end);
  if (*end != 0 || !(scale >= 0) || std::isinf(scale))
    throw Error("[kernels] MAGLEV_TOL_SCALE must be a number >= 0, got '" + std::string(text) + "'");
  return scale;
}

}  // namespace maglev::verbs::kernels
