#pragma once
// Initial weights from the run's own generator: the same network for the same seed on every machine
// and device.

#include <cstdint>

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

  /// Rows or columns orthonormal times gain (Saxe et al., 2014); tensors beyond two dimensions are
  /// flattened behind the first. In place.
  void orthogonal(at::Tensor weight, double gain);
  /// Normal with mean 0, cut at `limit`. In place.
  void normal(at::Tensor weight, double std, double limit);
  /// Uniform in (-limit, limit). In place.
  void uniform(at::Tensor weight, double limit);

 private:
  uint64_t seed_;
  int64_t next_ = 0;
  bool skip_ = false;
};

}  // namespace maglev
