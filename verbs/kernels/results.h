#pragma once
// Both sides of a kernel's case, run forwards and, where the kernel has gradients, backwards.

#include "engine/device/kernel.h"

namespace maglev::verbs::kernels {

struct Results {
  Tensors outputs;
  Tensors output_grads;  ///< one an output; undefined where it has no gradient
  Tensors gradients;     ///< one an input
};

/// The reference, with inputs and gradients in `dtype`; output gradients are standard normals of a
/// fixed draw.
Results reference_results(const KernelCase& kernel_case, at::ScalarType dtype = at::kFloat);

/// The fused side in f32 for those output gradients. Throws Error when an output that should have a
/// gradient has none, or the case's own backward gives another number of gradients than inputs.
Results fused_results(const KernelCase& kernel_case, const Tensors& output_grads);

}  // namespace maglev::verbs::kernels
