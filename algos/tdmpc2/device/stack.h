#pragma once
// Networks of fully connected layers on rows, without autograd: forward, back to the inputs, and
// the gradients of their weights over all rows at once. Networks of equal sizes go side by side. A
// layer is a product and a launch for its end, forward and back.

#include <vector>

#include <ATen/core/Tensor.h>

#include "algos/tdmpc2/world_model.h"
#include "kernels/dense/dense_op.h"

namespace maglev::tdmpc2 {

/// What n networks leave of `rows` rows on their way, for the next layer and for the way back.
/// Tensors are of the products' dtype where nothing else is said.
struct StackRun {
  at::Tensor input;  ///< [rows, in], at any distance from one another
  /// Numbers of the first layer's dropout, [n, rows, out] f32, or undefined.
  at::Tensor uniform;
  /// What the last layer gives before it is rounded, [rows, out] f32; undefined: not wanted.
  at::Tensor exact;
  std::vector<at::Tensor> product;   ///< [n, rows, out] of each layer with an end
  std::vector<at::Tensor> output;    ///< [n, rows, out] of each layer
  std::vector<at::Tensor> gradient;  ///< of each layer's product, where it went back
  std::vector<at::Tensor> parts;     ///< of each end's parameters, f32
  int64_t rows_each = 0;             ///< rows that go back at once
};

class DeviceStack {
 public:
  /// Where its gradients are added. What enters products is of their dtype, ends' are f32.
  struct Gradients {
    StackedMlp weights, vectors;
  };

  /// Of n networks whose weights and last biases are `weights`, in the products' dtype, and whose
  /// other vectors are `vectors`, f32. `last`: what the last layer ends in.
  DeviceStack(StackedMlp weights, StackedMlp vectors, DenseEnd last, double dropout = 0);
  /// One that learns.
  DeviceStack(StackedMlp weights, StackedMlp vectors, DenseEnd last, double dropout,
              Gradients gradients);

  /// A run over input [rows, in]. `output`: where the last layer's results go, [n, rows, out] whose
  /// rows may lie apart; undefined: to new memory.
  StackRun run(const at::Tensor& input, const at::Tensor& output = {}) const;
  /// Rows [first, first + count) through all layers; several networks take all rows at once.
  void forward(StackRun& run, int64_t first, int64_t count) const;
  /// The same of all rows; returns what the last layer gives.
  const at::Tensor& forward(StackRun& run) const;

  /// The way back of the first rows, `rows_each` after others, of which `gradient` [n, rows, out]
  /// holds those of the last layer's results. It is worked on in its place.
  void begin_back(StackRun& run, const at::Tensor& gradient, int64_t rows_each) const;
  /// Back through all layers to the first one's product; gradients of the ends' parameters only
  /// where the stack learns.
  void back(StackRun& run, int64_t first) const;
  /// Gradients of inputs [first, first + into.size(0)) in columns from `column` on, all networks'
  /// together, into [rows, columns]; added there where `add`.
  void input_gradient(const StackRun& run, int64_t first, int64_t column, const at::Tensor& into,
                      bool add) const;
  /// Adds the parameters' gradients over all rows that went back.
  void learn(const StackRun& run) const;

 private:
  bool learns() const { return !gradients_.weights.empty(); }
  DenseEnd end_of(size_t layer) const;
  /// What layer's inputs rows [first, first + count) were, [n, count, in].
  at::Tensor inputs(const StackRun& run, size_t layer, int64_t first, int64_t count) const;
  DenseEndTensors end(const StackRun& run, size_t layer, int64_t first, int64_t count) const;

  StackedMlp weights_, vectors_;
  DenseEnd last_;
  double dropout_;
  Gradients gradients_;
  int64_t n_;
  at::Tensor one_;  ///< [1, 1, 1], what sums over rows are products with
};

}  // namespace maglev::tdmpc2
