#pragma once
// The gradient of ComplEx's loss over a batch of questions, in blocks of fixed size that threads
// share: the same bits for any number of threads. The tests hold it to autograd.

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "base/core/thread_pool.h"

namespace maglev {

/// a b, or a conj(b), of rows [n, 2 D] of complex numbers, real parts first.
at::Tensor complex_product(const at::Tensor& a, const at::Tensor& b, bool conjugate);

class ComplexGradients {
 public:
  /// `batch`: questions at most. All others as below.
  ComplexGradients(int64_t entities, int64_t dim, int64_t batch);

  /// Of entities [C, 2 D], relations [R, 2 D] f32 and questions [B, 3] i32, each the places of what
  /// is known, of the relation and of the answer:
  ///   fit = mean over questions of -log softmax(scores)[answer],
  ///         scores Re<known, relation, conj(all)>
  ///   loss = fit + n3 / B * sum of |z|^3 over the rows of known, relation and answer
  /// Writes the gradients, which stay until the next call, and returns fit.
  double compute(const at::Tensor& entities, const at::Tensor& relations,
                 const at::Tensor& questions, double n3, ThreadPool& pool);
  const at::Tensor& entities() const { return d_entities_; }
  const at::Tensor& relations() const { return d_relations_; }

 private:
  at::Tensor scores_, d_queries_, fit_;  ///< [batch, C], [batch, 2 D], [batch]
  at::Tensor d_entities_, d_relations_;
};

}  // namespace maglev
