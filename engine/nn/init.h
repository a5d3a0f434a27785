#pragma once
// Initial weights from the run's own generator: the same network for the same seed on every machine
// and device.

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/linear.h>

namespace maglev {

/// Numbers tensors as they are initialised, so that each has a stream of its own.
class Initializer {
 public:
  explicit Initializer(uint64_t seed) : seed_(seed) {}
  /// Leaves every weight at zero: for replicas, which read another module's.
  static Initializer none() {
    Initializer init(0);
    init.skip_ = true;
    return init;
  }

  /// For modules that are only asked for their sizes: weights without memory (torch's meta device).
  static Initializer shapes() {
    Initializer init = none();
    init.meta_ = true;
    return init;
  }

  /// Whether weights stay as they are made.
  bool skips() const { return skip_; }

  /// Zeros of a new weight.
  at::Tensor weight(const std::vector<int64_t>& sizes) const;
  /// Rows or columns orthonormal times gain (Saxe et al., 2014); tensors beyond two dimensions are
  /// flattened behind the first. In place.
  void orthogonal(at::Tensor weight, double gain);
  /// Normal with mean 0, cut at `limit`. In place.
  void normal(at::Tensor weight, double std, double limit);
  /// Normal with mean 0 of which only what lies within [-limit, limit] deviations is drawn. In
  /// place.
  void truncated_normal(at::Tensor weight, double std, double limit);
  /// Uniform in (-limit, limit). In place.
  void uniform(at::Tensor weight, double limit);

 private:
  uint64_t seed_;
  int64_t next_ = 0;
  bool skip_ = false, meta_ = false;
};

}  // namespace maglev
