#pragma once
// In which numbers networks compute. Parameters, gradients, optimiser, advantages and reductions
// stay fp32 whatever is chosen here.

#include <array>
#include <vector>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace maglev {

enum class Precision {
  fp32,  ///< as written
  tf32,  ///< products of fp32 with 10 bits of mantissa, CUDA from Ampere on
  bf16,  ///< forward passes under autocast
  fp16,  ///< forward passes under autocast, gradients with dynamic loss scaling (LossScale)
};

constexpr auto names_of(Precision) { return std::array{"fp32", "tf32", "bf16", "fp16"}; }

/// What `device` computes, fp32 first. A processor without bf16 instructions of its own still does
/// bf16, slowly.
std::vector<Precision> precisions_of(at::Device device);

/// What products on `device` are computed in at this place: autocast's type within it, else f32.
at::ScalarType product_type(at::Device device);

/// Sets torch's global switches for a run on a GPU; nothing on a processor. Call it before anything
/// is computed there, for libraries read some of them once.
///   TF32 products      on unless fp32
///   deterministic      the same bits each time: torch refuses operations that have no such way, and
///                      cuBLAS gets the workspaces with which streams do not show
///   cuDNN's search     for the fastest convolutions, which another process may end otherwise: off
///                      where deterministic. MIOpen's, which takes minutes, is never on
void apply_precision(Precision precision, at::Device device, bool deterministic);

}  // namespace maglev
