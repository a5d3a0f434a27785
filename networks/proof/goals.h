#pragma once
// Goals of a search, lists of atoms predicate(first, second), as vectors. Tables hold a row for
// each predicate, constant and variable; atoms are made of their rows, goals of their atoms.

#include <array>
#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "engine/nn/init.h"
#include "networks/proof/lists.h"

namespace maglev::networks::proof {

/// An atom r(h, t), from the rows of r, h and t. An atom without arguments is r's row.
enum class AtomEmbedding {
  transe,       ///< r + h - t (Bordes et al., 2013)
  sum,          ///< r - (h + t)
  complex,      ///< Re(h r conj(t)) by dimension (Trouillon et al., 2016); rows are complex
  rotate,       ///< |h e^(ir) - t| by dimension (Sun et al., 2019); rows of h and t are complex
  concat,       ///< r, h and t side by side
  attention,    ///< the list r, h, t weighted by a learned query, each with its place's row
  transformer,  ///< the same behind a layer of self-attention (Vaswani et al., 2017)
};
constexpr auto names_of(AtomEmbedding) {
  return std::array{"transe", "sum", "complex", "rotate", "concat", "attention", "transformer"};
}

/// A goal from its atoms, of which there are at most A.
enum class GoalEmbedding {
  mean,         ///< the sum over A
  masked_mean,  ///< the sum over the number of atoms
  sum,
  concat,       ///< side by side
  attention,    ///< the list of its atoms, as above
  transformer,  ///< likewise
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
    int64_t heads;                  ///< of attention
  };
  GoalEmbedder(const Shape& shape, AtomEmbedding atoms, GoalEmbedding goals, Initializer& init);

  /// goals [U, A, 3] i32 -> [U, features()] f32. `fused`: sums by kernels/atom_sum where goals are
  /// sums of rows; else, on a processor, only atoms that are there, attention by kernels/attention.
  at::Tensor forward(const at::Tensor& goals, bool fused) const;
  int64_t features() const;
  /// Of a goal whose places are all taken: multiply-adds, and numbers that stay for the way back.
  int64_t multiply_adds() const;
  int64_t outputs() const;

 private:
  at::Tensor forward_packed(const at::Tensor& goals, const at::Tensor& present) const;
  at::Tensor atoms(const at::Tensor& goals, bool packed) const;
  at::Tensor words(const at::Tensor& goals, const std::array<at::Tensor, 3>& rows,
                   bool packed) const;
  at::Tensor pooled(const at::Tensor& atoms, const at::Tensor& present) const;
  int64_t atom_width() const;

  Shape shape_;
  AtomEmbedding atom_;
  GoalEmbedding goal_;
  at::Tensor predicates_, constants_;
  std::shared_ptr<ListEmbedder> atom_list_, goal_list_;  ///< null where there is no attention
};

}  // namespace maglev::networks::proof
