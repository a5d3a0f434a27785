#pragma once
// Lists of vectors as one vector each: weighted by a learned query, behind a layer of a
// transformer's encoder or not (Vaswani et al., "Attention is all you need", 2017). A goal is a
// list of atoms, an atom one of three words.

#include <cstdint>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "engine/nn/init.h"
#include "kernels/attention/attention_op.h"

namespace maglev::networks::proof {

/// The places of lists that are taken, as rows that lie one behind another.
struct PackedLists {
  at::Tensor rows;   ///< [m] i64, which of all places each row is; behind the last one 0
  at::Tensor place;  ///< [m] i64, which of its list's
  int64_t count;     ///< rows of lists; m is packed_size(count)
  RowSequences sequences;
};
/// seen [N, L] bool of a processor, at least one of each list; L is at most kMostAttended.
PackedLists pack_lists(const at::Tensor& seen);

class ListEmbedder : public torch::nn::Module {
 public:
  struct Shape {
    int64_t places, width, heads;
    bool encoder;  ///< whether a transformer's layer stands before the query
  };
  ListEmbedder(const Shape& shape, Initializer& init);

  /// x [N, L, E] f32, of which `seen` [N, L] bool are taken, at least one of each list -> [N, E].
  /// Graph-safe. On a GPU by flash or memory-efficient kernels, as far as they take a mask.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& seen) const;
  /// The same of rows [m, E] that are taken, by kernels/attention.
  at::Tensor forward(const at::Tensor& x, const PackedLists& lists) const;

  /// Of a place.
  int64_t multiply_adds() const;
  int64_t outputs() const;

 private:
  at::Tensor add_matrix(const char* name, int64_t rows, int64_t columns, Initializer& init);
  template <class Attend>
  at::Tensor encoded(const at::Tensor& x, const Attend& attend) const;

  Shape shape_;
  at::Tensor places_, query_;                               ///< [L, E], [1, E]
  at::Tensor qkv_, joined_, wide_, narrow_, gain_, shift_;  ///< an encoder's
};

}  // namespace maglev::networks::proof
