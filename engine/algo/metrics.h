#pragma once
// Device accumulators of an algorithm's figures: a weighted sum each, read once per flush.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace maglev {

class Metrics {
 public:
  explicit Metrics(at::Device device);

  /// Registers names once, at construction of the algorithm's first update; returns the index of
  /// the first.
  int64_t declare(const std::vector<std::string>& names);
  /// sums[first + i] += values[i] * weight, weights[first + i] += weight.
  ///   values [K] f32; weight scalar f32 tensor (0 skips); both on the metrics' device
  void add(int64_t first, const at::Tensor& values, const at::Tensor& weight);

  /// The same from the host, without an operation of ATen: for fused code. CPU only; weight >= 0.
  void add(int64_t first, std::span<const float> values, float weight);

  /// Weighted means by name since the last take, then cleared; a figure with weight 0 is NaN. Waits
  /// for the device.
  std::vector<std::pair<std::string, double>> take();

  // The same in parts, for a copy that nobody waits for.

  /// [2, capacity] f32 on the device: sums, weights. Fused code may add there by itself, as add
  /// does.
  const at::Tensor& sums() const { return sums_; }
  void clear();

  /// Algorithms say after each pass over an update's data that it is over: passes 0, 1, ..
  void passed(int64_t epoch) {
    if (watcher_) tell(epoch);
  }
  /// `watcher` is called with the weighted means of each pass alone, as take() gives them; that
  /// waits for the device each time.
  using Watcher =
      std::function<void(int64_t epoch, const std::vector<std::pair<std::string, double>>&)>;
  void watch(Watcher watcher);
  /// What was added until now is no pass's, such as other processes' figures.
  void begin_pass() {
    if (watcher_) watch(std::move(watcher_));
  }
  bool watched() const { return bool(watcher_); }

  /// Of a host copy of sums().
  std::vector<std::pair<std::string, double>> means(const float* sums) const;

 private:
  void tell(int64_t epoch);

  std::vector<std::string> names_;
  at::Tensor sums_;  ///< [2, capacity] f32: sums, weights
  Watcher watcher_;
  at::Tensor seen_;  ///< as sums_, on the host: what the watcher was told of; undefined without one
};

}  // namespace maglev
