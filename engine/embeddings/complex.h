#pragma once
// A knowledge graph's entities and relations as vectors of complex numbers, whose product says how
// likely a triple is (ComplEx: Trouillon et al., "Complex embeddings for simple link prediction",
// ICML 2016). Scores everything in one product and explains nothing: the prover's counterpart.
// CPU; any number of threads may score.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/core/thread_pool.h"
#include "base/datalog/program.h"

namespace maglev {

struct ComplexOptions {
  int64_t dim = 50;  ///< D, complex numbers of an entity
  int64_t epochs = 50;
  int64_t batch = 512;
  double lr = 0.1;   ///< of Adagrad (Duchi et al. 2011)
  double n3 = 5e-3;  ///< weight of the nuclear 3-norm
  uint64_t seed = 0;
};

class ComplexEmbedding {
 public:
  /// Trained as Lacroix, Usunier and Obozinski ("Canonical tensor decomposition for knowledge base
  /// completion", ICML 2018): every triple asks for its second argument among all constants, and
  /// under a reciprocal predicate for its first; cross-entropy over all of them, N3 regularised.
  /// The same bits for any number of threads. `told` hears of each epoch's mean loss, `asked` after
  /// each batch how many questions of those of all epochs it was until now: where it says no, the
  /// vectors are those of then.
  static ComplexEmbedding train(const std::vector<datalog::Atom>& facts, int64_t constants,
                                int64_t predicates, const ComplexOptions& options, ThreadPool& pool,
                                const std::function<void(int64_t epoch, double loss)>& told = {},
                                const std::function<bool(int64_t count, int64_t of)>& asked = {});
  /// entities [C, 2 D] f32, real parts first; relations [P, 2 D], or [2 P, 2 D] with the
  /// reciprocals behind. Throws Error where they do not fit each other.
  ComplexEmbedding(at::Tensor entities, at::Tensor relations, int64_t predicates,
                   const std::string& where);

  int64_t constants() const { return entities_.size(0); }
  int64_t predicates() const { return predicates_; }

  /// Scores [B, C] of every constant as the second argument of predicate(first, _): larger is
  /// likelier, their softmax the model's distribution. first, predicate [B] i64 ids from 1.
  at::Tensor seconds(const at::Tensor& predicate, const at::Tensor& first) const;
  /// Likewise as the first argument of predicate(_, second).
  at::Tensor firsts(const at::Tensor& predicate, const at::Tensor& second) const;

  /// A safetensors file with the names of `program`, which is written anew as a whole.
  void save(const std::string& path, const datalog::Program& program) const;
  /// Reads one: rows are put in the order of the program's names. Throws Error where it is none, or
  /// lacks a name.
  static ComplexEmbedding load(const std::string& path, const datalog::Program& program);

 private:
  /// The query whose product with an entity is the score.
  at::Tensor query(const at::Tensor& known, const at::Tensor& relation, bool conjugate) const;

  at::Tensor entities_, relations_;
  int64_t predicates_;
};

}  // namespace maglev
