#pragma once
// Muon (Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024): the
// momentum of a weight matrix is made orthogonal before it is stepped along, so that all its
// directions are learned at one pace. Everything that is no hidden matrix is left to Adam.

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/nn/optimizer.h"

namespace torch::nn {
class Module;
}

namespace maglev {

struct MuonOptions {
  double momentum = 0.95;  ///< in [0, 1), Nesterov's
  /// Root mean square of a step in units of the learning rate. 0.2 is about Adam's, so that both
  /// share a rate (Liu et al., "Muon is scalable for LLM training", 2025).
  double update_rms = 0.2;
  /// Direct children of the module whose matrices are Adam's too: output layers.
  std::vector<std::string> adam_modules = {};
};

/// The nearest matrix to `x` [rows, columns] whose singular values are about 1 (within 0.7 to 1.2
/// from relative size 0.01 on): five steps of Newton and Schulz with Jordan's quintic. f32.
at::Tensor orthogonalized(const at::Tensor& x);

/// Clips, then steps matrices by Muon and the rest by Adam, as FlatAdam does: without reading a
/// value back. Weight decay and skipping are Adam's.
class FlatMuon : public Optimizer {
 public:
  /// `module` is the one whose parameters `params` holds.
  FlatMuon(const FlatParams& params, const torch::nn::Module& module, AdamOptions adam,
           MuonOptions options);

  void reduce(const at::Tensor& grads, const at::Tensor& unscale, ThreadPool& pool) override {
    adam_.reduce(grads, unscale, pool);
  }
  void clip(const at::Tensor& skip) override { adam_.clip(skip); }
  void step(const at::Tensor& lr, ThreadPool& pool) override;
  const at::Tensor& norm() const override { return adam_.norm(); }
  const at::Tensor& nonfinite() const override { return adam_.nonfinite(); }
  at::Tensor& first_moment() override { return adam_.first_moment(); }
  at::Tensor& second_moment() override { return adam_.second_moment(); }
  void visit_state(StateVisitor& visitor) override;

 private:
  /// A weight matrix and where it lies in the flat buffer.
  struct Matrix {
    int64_t begin, rows, columns;
  };
  at::Tensor view(const at::Tensor& flat, const Matrix& m) const;

  MuonOptions options_;
  double weight_decay_;
  FlatAdam adam_;
  std::vector<FlatRange> ranges_;
  std::vector<Matrix> matrices_;
  at::Tensor data_, momentum_;  ///< [P]; momentum is read where there are matrices
};

}  // namespace maglev
