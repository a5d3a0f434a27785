#pragma once
// In which numbers networks compute. Parameters, gradients, optimiser, advantages and reductions
// stay fp32 whatever is chosen here.

#include <array>
#include <vector>

#include <c10/core/Device.h>

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

/// Sets torch's global switches for a run: TF32 products on or off, and which convolution
/// algorithms are searched for (cuDNN's; not MIOpen's, whose search takes minutes).
void apply_precision(Precision precision, at::Device device);

}  // namespace maglev
