#pragma once
// The layers of Dreamer V3. Weights begin truncated normal, wide as their inputs are many; biases
// at
// 0. Everywhere a product comes first, then the norm, then SiLU.

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "engine/nn/init.h"

namespace maglev::dreamer {

/// What norms add to the mean of squares.
constexpr double kNormEps = 1e-4;

/// x [..., in] to [..., out].
class Dense : public torch::nn::Module {
 public:
  /// Weights begin `scale` times as wide as they would.
  Dense(int64_t in, int64_t out, Initializer& init, double scale = 1, bool with_bias = true);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  at::Tensor weight_, bias_;  ///< [out, in], [out] or none
};

/// `blocks` layers side by side: x [N, blocks, in / blocks] to [N, blocks, out / blocks].
class BlockDense : public torch::nn::Module {
 public:
  BlockDense(int64_t in, int64_t out, int64_t blocks, Initializer& init);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  at::Tensor weight_, bias_;  ///< [blocks, in / blocks, out / blocks], [out]
};

/// Weights of a window of 5 x 5. Encoder and Decoder compute with all their stages at once.
class Convolution : public torch::nn::Module {
 public:
  Convolution(int64_t in, int64_t out, Initializer& init);

 private:
  at::Tensor weight_, bias_;  ///< [out, in, 5, 5], [out]
};

/// SiLU of x [..., n] over the root of its mean square, times a learned scale (Zhang and Sennrich,
/// "Root mean square layer normalization", 2019).
class NormSilu : public torch::nn::Module {
 public:
  NormSilu(int64_t n, Initializer& init);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  at::Tensor scale_;  ///< [n]
};

/// Hidden layers of `units`.
class Mlp : public torch::nn::Module {
 public:
  Mlp(int64_t in, int64_t layers, int64_t units, Initializer& init);
  at::Tensor forward(at::Tensor x) const;

 private:
  std::vector<std::shared_ptr<Dense>> dense_;
  std::vector<std::shared_ptr<NormSilu>> norm_;
};

struct HeadShape {
  int64_t in, layers, units, out;
  double scale;  ///< of the output's first weights
};

/// Hidden layers and an output.
class Head : public torch::nn::Module {
 public:
  Head(const HeadShape& shape, Initializer& init);
  at::Tensor forward(const at::Tensor& x) const { return out_->forward(hidden_->forward(x)); }

 private:
  std::shared_ptr<Mlp> hidden_;
  std::shared_ptr<Dense> out_;
};

}  // namespace maglev::dreamer
