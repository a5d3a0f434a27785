#pragma once
// What takes goals from their embeddings to vectors that are compared: a body of residual blocks
// and a head.

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "engine/nn/actor_critic.h"
#include "engine/nn/init.h"
#include "kernels/relu_norm/relu_norm_op.h"

namespace maglev::networks::proof {

/// [U, in] -> [U, width] f32: LN(ReLU(Linear x)), then blocks x + LN(ReLU(Linear x)).
class Body : public torch::nn::Module {
 public:
  Body(int64_t in, int64_t width, int64_t blocks, Initializer& init);
  /// fused: layers by kernels/relu_norm; else ATen's.
  at::Tensor forward(const at::Tensor& x, bool fused) const;

 private:
  std::vector<ReluNormLayer> layers_;
};

/// [U, in] -> [U, outputs.back()] f32: layers with ReLU between them.
class Head : public torch::nn::Module {
 public:
  /// gain: of the last layer's initial weights.
  Head(int64_t in, const std::vector<int64_t>& outputs, bool relu_behind, double gain,
       Initializer& init);
  at::Tensor forward(const at::Tensor& x, bool fused) const;

 private:
  std::vector<at::Tensor> weights_, biases_;
  bool relu_behind_;
};

}  // namespace maglev::networks::proof
