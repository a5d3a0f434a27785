#include "engine/algo/metrics.h"

#include <limits>

#include <torch/torch.h>

#include "engine/core/error.h"

namespace maglev {
namespace {
constexpr int64_t kCapacity = 128;
}

Metrics::Metrics(at::Device device)
    : sums_(at::zeros({2, kCapacity}, at::TensorOptions(at::kFloat).device(device))) {}

int64_t Metrics::declare(const std::vector<std::string>& names) {
  int64_t first = int64_t(names_.size());
  names_.insert(names_.end(), names.begin(), names.end());
  MAGLEV_ASSERT(int64_t(names_.size()) <= kCapacity, "raise the capacity of Metrics");
  return first;
}

void Metrics::add(int64_t first, const at::Tensor& values, const at::Tensor& weight) {
  at::NoGradGuard no_grad;
  const int64_t K = values.size(0);
  // a skipped figure may be NaN, which times zero would still be NaN
  sums_[0].narrow(0, first, K).add_(at::where(weight > 0, values * weight, 0.f));
  sums_[1].narrow(0, first, K).add_(weight);
}

std::vector<std::pair<std::string, double>> Metrics::take() {
  auto host = sums_.cpu().clone();
  sums_.zero_();
  const float* sum = host.data_ptr<float>();
  const float* weight = sum + kCapacity;
  std::vector<std::pair<std::string, double>> values;
  for (size_t i = 0; i < names_.size(); ++i)
    values.emplace_back(names_[i], weight[i] > 0 ? double(sum[i]) / weight[i]
                                                 : std::numeric_limits<double>::quiet_NaN());
  return values;
}

}  // namespace maglev
