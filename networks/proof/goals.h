#pragma once
// Goals of a search, lists of atoms predicate(first, second), as vectors. Tables hold a row for each
// predicate, constant and variable; atoms are made of their rows, goals of their atoms.

#include <array>
#include <cstdint>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "engine/nn/init.h"

namespace maglev::networks::proof {

/// An atom r(h, t), from the rows of r, h and t. An atom without arguments is r's row.
enum class AtomEmbedding {
  transe,   ///< r + h - t (Bordes et al., 2013)
  sum,      ///< r - (h + t)
  complex,  ///< Re(h r conj(t)) by dimension (Trouillon et al., 2016); rows are complex
  rotate,   ///< |h e^(ir) - t| by dimension (Sun et al., 2019); rows of h and t are complex
};
constexpr auto names_of(AtomEmbedding) { return std::array{"transe", "sum", "complex", "rotate"}; }

/// A goal from its atoms, of which there are at most A.
enum class GoalEmbedding {
  mean,         ///< the sum over A
  masked_mean,  ///< the sum over the number of atoms
  sum,
  concat,       ///< side by side, A E numbers
  attention,    ///< weighted by a learned query, each with its place's row
  transformer,  ///< the same behind a layer of self-attention (Vaswani et al., 2017)
};
constexpr auto names_of(GoalEmbedding) {
  return std::array{"mean", "masked_mean", "sum", "concat", "attention", "transformer"};
}

class GoalEmbedder : public torch::nn::Module {
 public:
  struct Shape {
    int64_t predicates, constants;  ///< rows of the tables; row 0 is padding, zeros
    int64_t atoms;                  ///< A
    int64_t width;                  ///< E
  };
  GoalEmbedder(const Shape& shape, AtomEmbedding atoms, GoalEmbedding goals, Initializer& init);

  /// goals [U, A, 3] i32 -> [U, features()] f32. `fused`: sums by kernels/atom_sum where goals are
  /// sums of rows, and the tensors are a processor's.
  at::Tensor forward(const at::Tensor& goals, bool fused) const;
  int64_t features() const;
  /// Multiply-adds of a goal.
  int64_t multiply_adds() const;

 private:
  at::Tensor atoms(const at::Tensor& goals) const;
  at::Tensor pooled(const at::Tensor& atoms, const at::Tensor& present) const;
  at::Tensor self_attended(const at::Tensor& x, const at::Tensor& present) const;
  at::Tensor add_matrix(const char* name, int64_t rows, int64_t columns, Initializer& init);

  Shape shape_;
  AtomEmbedding atom_;
  GoalEmbedding goal_;
  at::Tensor predicates_, constants_;
  at::Tensor places_, query_;                               ///< [A, E], [E]: attention's
  at::Tensor qkv_, joined_, wide_, narrow_, gain_, shift_;  ///< transformer's
};

}  // namespace maglev::networks::proof
