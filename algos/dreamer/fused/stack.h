#pragma once
// Hidden layers and an output on rows, without autograd: forward slot by slot, as steps of a dream
// come, back through all slots at once.

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "algos/dreamer/fused/weights.h"

namespace maglev::dreamer {

/// Where gradients of hidden layers lie on the way back, for any stack of a shard.
struct BackScratch {
  BackScratch(int64_t rows, int64_t width, const at::TensorOptions& options);

  at::Tensor d, d_pre;  ///< [rows * width] each
  at::Tensor ones;      ///< [rows]
};

/// How many rows a stack takes at once, and how many such slots it keeps.
struct StackRows {
  int64_t rows, slots;
};

class Stack {
 public:
  /// Of a Head, as a module with bound gradients.
  Stack(const torch::nn::Module& head, const StackRows& rows, WeightRows& weights);

  /// x [rows, in], of which a row's elements lie together.
  void forward(int64_t slot, const at::Tensor& x);
  /// The output without its bias: [rows, out] of a slot, [slots * rows, out] of all.
  at::Tensor& out(int64_t slot) { return slots_[size_t(slot)].out; }
  at::Tensor& all_out() { return out_; }
  const at::Tensor& bias() const { return last_.bias; }

  /// Adds gradients of the weights by those of the first R outputs of all slots, d_out [R, out] of
  /// inputs x [R, in]; and those of the inputs to d_x [R, in] where it is defined.
  void back(const at::Tensor& d_out, const at::Tensor& x, BackScratch& scratch,
            at::Tensor d_x = {});

 private:
  struct Layer {
    DenseWeights dense;
    NormWeights norm;
    at::Tensor pre, active, inverse;  ///< [slots * rows, units] twice, [slots * rows]
  };
  struct Slot {
    std::vector<at::Tensor> pre, active, inverse;  ///< of each layer
    at::Tensor out;
  };

  std::vector<Layer> layers_;
  DenseWeights last_;
  at::Tensor out_;
  std::vector<Slot> slots_;
};

}  // namespace maglev::dreamer
