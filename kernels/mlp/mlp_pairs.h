#pragma once
// The products of a layer with pairs of bfloat16, for mlp_cpu.cpp.

#include "kernels/mlp/mlp.h"

namespace maglev {

/// x [in][stride] to `words`, and y = W x + b from these, [out][stride] with its padding.
void multiply_forward(const DenseLayer& layer, const float* x, int64_t stride, uint32_t* words,
                      float* y);

/// d loss / d z of a panel in pairs of outputs, [words_of_features(out)][stride].
struct PairGrad {
  const uint32_t* words;
};
/// Adds the gradients of weight and bias; `dz` [out][stride] is 0 in padding columns. What is
/// returned lies in `scratch`.
PairGrad add_pair_grads(const DenseLayer& layer, const uint32_t* x, const float* dz, int64_t stride,
                        uint32_t* scratch, const DenseGrad& grad);
/// W^T dz: of the first `features` inputs, dx [features][stride] written.
void multiply_back(const DenseLayer& layer, const PairGrad& dz, int64_t features, int64_t stride,
                   float* dx);

}  // namespace maglev
