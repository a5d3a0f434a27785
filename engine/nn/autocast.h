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

/// Dynamic loss scaling (Micikevicius et al., "Mixed precision training", 2018) without reading a
/// value back: the scale halves when a gradient is not finite and doubles after 2000 steps in a row
/// that were. Off, the scale stays 1.
class LossScale {
 public:
  LossScale(bool on, at::Device device);

  /// What the loss is multiplied with before backward. Device scalar f32.
  const at::Tensor& scale() const { return scale_; }
  /// Divides grad [P] f32 by the scale in place, then adapts the scale.
  ///   returns 1 where a gradient was not finite and the step must be left out, else 0; device
  ///   scalar f32, valid until the next call
  const at::Tensor& unscale(at::Tensor& grad);
  /// Steps left out so far. Device scalar f32.
  const at::Tensor& skipped() const { return skipped_; }

  void visit_state(StateVisitor& visitor);

 private:
  bool on_;
  at::Tensor scale_, growth_, found_, skipped_;
};

}  // namespace maglev
