#pragma once
// In which numbers networks compute. Parameters, gradients, optimiser, advantages and reductions
// stay fp32 whatever is chosen here.

namespace maglev {

enum class Precision {
  fp32,  ///< as written
  tf32,  ///< products of fp32 with 10 bits of mantissa, CUDA from Ampere on
  bf16,  ///< forward passes under autocast
  fp16,  ///< forward passes under autocast, gradients with dynamic loss scaling (LossScale)
};

}  // namespace maglev
