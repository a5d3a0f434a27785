#include "engine/algo/metrics.h"

#include <algorithm>
#include <limits>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/core/error.h"

namespace maglev {
namespace {
constexpr int64_t kCapacity = 128;
}

Metrics::Metrics(at::Device device)
    : sums_(at::zeros({2, kCapacity}, at::TensorOptions(at::kFloat).device(device))) {}

int64_t Metrics::declare(const std::vector<std::string>& names) {
  // a state that was loaded may have brought them
  const auto known = std::search(names_.begin(), names_.end(), names.begin(), names.end());
  if (known != names_.end() && !names.empty()) return known - names_.begin();
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

void Metrics::add(int64_t first, std::span<const float> values, float weight) {
  MAGLEV_ASSERT(sums_.is_cpu(), "figures on a device are added there");
  // a skipped figure may be NaN, which times zero would still be NaN
  if (!(weight > 0)) return;
  float* sums = sums_.mutable_data_ptr<float>() + first;
  for (size_t i = 0; i < values.size(); ++i) {
    sums[i] += values[i] * weight;
    sums[kCapacity + int64_t(i)] += weight;
  }
}

std::vector<std::pair<std::string, double>> Metrics::take() {
  const auto host = sums_.cpu().clone();
  clear();
  return means(host.data_ptr<float>());
}

void Metrics::clear() {
  sums_.zero_();
  if (watcher_) seen_.zero_();
}

void Metrics::watch(Watcher watcher) {
  watcher_ = std::move(watcher);
  if (watcher_) seen_ = sums_.cpu().clone();
}

void Metrics::tell(int64_t epoch) {
  const at::Tensor now = sums_.cpu(), pass = now - seen_;
  seen_.copy_(now);
  watcher_(epoch, means(pass.const_data_ptr<float>()));
}

std::vector<std::pair<std::string, double>> Metrics::means(const float* sums) const {
  const float* weights = sums + kCapacity;
  std::vector<std::pair<std::string, double>> values;
  for (size_t i = 0; i < names_.size(); ++i)
    values.emplace_back(names_[i], weights[i] > 0 ? double(sums[i]) / weights[i]
                                                  : std::numeric_limits<double>::quiet_NaN());
  return values;
}

}  // namespace maglev
