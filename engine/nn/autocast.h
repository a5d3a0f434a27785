#pragma once
// Reduced precision of forward passes, and the loss scaling that fp16 needs with it. Parameters and
// gradients stay fp32; what a network returns is cast back by whoever reduces it.

#include <ATen/core/Tensor.h>

#include "engine/data/state.h"
#include "engine/device/precision.h"

namespace maglev {

/// While it lives, matrix products and convolutions of this thread compute in `precision` (torch's
/// autocast, without its cache of cast weights, which threads and captured graphs would share).
/// fp32 and tf32 change nothing.
class Autocast {
 public:
  Autocast(Precision precision, at::Device device);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::DeviceType type_;
  bool on_, enabled_before_ = false, cache_before_ = false;
  at::ScalarType dtype_before_ = at::kFloat;
};

/// While it lives, products of this thread compute in f32 within an Autocast: those of heads, whose
/// rounding would be larger than what advantages and ratios tell apart. On a GPU they take TF32, as
/// products of f32 do wherever a run is not in fp32 (apply_precision). Inputs that were rounded are
/// to be cast before.
class WithoutAutocast {
 public:
  explicit WithoutAutocast(at::Device device);
  ~WithoutAutocast();
  WithoutAutocast(const WithoutAutocast&) = delete;
  WithoutAutocast& operator=(const WithoutAutocast&) = delete;

 private:
  at::DeviceType type_;
  bool before_;
};

/// Dynamic loss scaling (Micikevicius et al., "Mixed precision training", 2018) without reading a
/// value back: the scale halves when a gradient is not finite and doubles after 2000 steps in a row
/// that were. Off, the scale stays 1.
class LossScale {
 public:
  LossScale(bool on, at::Device device);

  /// What the loss is multiplied with before backward. Device scalar f32.
  const at::Tensor& scale() const { return scale_; }
  /// What the gradient is multiplied with behind it, 1 / scale: for Optimizer::reduce. Device
  /// scalar f32; undefined when off.
  const at::Tensor& unscale() const { return unscale_; }
  /// Adapts the scale. `norm` is that of the unscaled gradient (Optimizer::norm): where it is not
  /// finite, the gradient was not.
  void adapt(const at::Tensor& norm);

  void visit_state(StateVisitor& visitor);

 private:
  bool on_;
  at::Tensor scale_, unscale_, growth_;
};

}  // namespace maglev
