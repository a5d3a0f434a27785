#pragma once
#include <ATen/core/Tensor.h>

namespace maglev {

/// What gae_ writes besides where it is defined, [T, N] f32.
struct GaeExtras {
  at::Tensor returns;  ///< advantage + value
  at::Tensor valid;    ///< 0 where a step only reset, else 1
};

/// Advantages over a rollout, walking back from the bootstrap.
///   reward [T, N] f32          value [T+1, N] f32, time T is the bootstrap
///   terminated [T, N] u8
///   is_first [T+1, N] u8: a step whose next one is first only reset, and gets 0
///   advantage [T, N] f32, written; all contiguous on one device. gamma, lambda in [0, 1].
/// Graph-safe. Throws Error if a shape differs.
void gae_(at::Tensor& advantage, const at::Tensor& reward, const at::Tensor& value,
          const at::Tensor& terminated, const at::Tensor& is_first, double gamma, double lambda,
          const GaeExtras& extras = {});

/// The same in plain ATen, one time step after another.
at::Tensor gae_reference(const at::Tensor& reward, const at::Tensor& value,
                         const at::Tensor& terminated, const at::Tensor& is_first, double gamma,
                         double lambda);

}  // namespace maglev
