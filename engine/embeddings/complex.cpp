#include "engine/embeddings/complex.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "base/core/permute.h"
#include "base/datalog/vectors.h"
#include "engine/embeddings/complex_gradients.h"
#include "engine/nn/init.h"

namespace maglev {
namespace {

constexpr double kInitialDeviation = 1e-2, kAdagradEps = 1e-10;

}  // namespace

ComplexEmbedding::ComplexEmbedding(at::Tensor entities, at::Tensor relations, int64_t predicates,
                                   const std::string& where)
    : entities_(std::move(entities)), relations_(std::move(relations)), predicates_(predicates) {
  const bool fits = entities_.dim() == 2 && relations_.dim() == 2 &&
                    entities_.size(1) == relations_.size(1) && entities_.size(1) % 2 == 0 &&
                    (relations_.size(0) == predicates || relations_.size(0) == 2 * predicates);
  if (fits) return;
  std::string came;
  for (const at::Tensor* t : {&entities_, &relations_}) {
    came += came.empty() ? "[" : " and [";
    for (int64_t i = 0; i < t->dim(); ++i) came += (i ? ", " : "") + std::to_string(t->size(i));
    came += "]";
  }
  throw Error("[" + where +
              "] entities must be [C, 2 D] and relations [P, 2 D] or [2 P, 2 D] with P = " +
              std::to_string(predicates) + ", got " + came);
}

ComplexEmbedding ComplexEmbedding::train(const std::vector<datalog::Atom>& facts, int64_t constants,
                                         int64_t predicates, const ComplexOptions& options,
                                         ThreadPool& pool,
                                         const std::function<void(int64_t, double)>& told,
                                         const std::function<bool(int64_t, int64_t)>& asked) {
  if (facts.empty()) throw Error("[embedding] there are no facts to learn from");
  Initializer init(options.seed);
  const auto table = [&](int64_t rows) {
    auto weight = at::zeros({rows, 2 * options.dim});
    init.normal(weight, kInitialDeviation, 10 * kInitialDeviation);
    return weight;
  };
  at::Tensor entities = table(constants), relations = table(2 * predicates);
  at::Tensor squares[2] = {at::zeros_like(entities), at::zeros_like(relations)};

  // every triple, and every triple the other way round under the reciprocal predicate
  const int64_t count = 2 * int64_t(facts.size());
  at::Tensor triples = at::empty({count, 3}, at::kInt);
  auto t = triples.accessor<int32_t, 2>();
  for (int64_t i = 0; i < int64_t(facts.size()); ++i) {
    const datalog::Atom& f = facts[size_t(i)];
    t[2 * i][0] = f.first - 1, t[2 * i][1] = f.predicate - 1, t[2 * i][2] = f.second - 1;
    t[2 * i + 1][0] = f.second - 1, t[2 * i + 1][1] = int32_t(predicates) + f.predicate - 1;
    t[2 * i + 1][2] = f.first - 1;
  }

  const auto adagrad = [&](at::Tensor& weight, const at::Tensor& grad, at::Tensor& squares) {
    squares.addcmul_(grad, grad);
    weight.addcdiv_(grad, squares.sqrt().add_(kAdagradEps), -options.lr);
  };
  ComplexGradients gradients(constants, options.dim, std::min(options.batch, count));

  at::Tensor order = at::empty({count}, at::kLong);
  bool enough = false;
  for (int64_t epoch = 0; epoch < options.epochs && !enough; ++epoch) {
    const Permutation shuffled(options.seed, uint64_t(epoch), uint64_t(count));
    int64_t* place = order.data_ptr<int64_t>();
    for (int64_t i = 0; i < count; ++i) place[i] = int64_t(shuffled(uint64_t(i)));
    double sum = 0;
    for (int64_t begin = 0; begin < count && !enough; begin += options.batch) {
      const int64_t B = std::min(options.batch, count - begin);
      sum += double(B) * gradients.compute(entities, relations,
                                           triples.index_select(0, order.narrow(0, begin, B)),
                                           options.n3, pool);
      // Adagrad
      adagrad(entities, gradients.entities(), squares[0]);
      adagrad(relations, gradients.relations(), squares[1]);
      enough = asked && !asked(epoch * count + begin + B, options.epochs * count);
    }
    if (told && !enough) told(epoch, sum / double(count));
  }
  return ComplexEmbedding(entities, relations, predicates, "embedding");
}

at::Tensor ComplexEmbedding::query(const at::Tensor& known, const at::Tensor& relation,
                                   bool conjugate) const {
  return complex_product(entities_.index_select(0, known - 1), relations_.index_select(0, relation),
                         conjugate);
}

at::Tensor ComplexEmbedding::seconds(const at::Tensor& predicate, const at::Tensor& first) const {
  return at::mm(query(first, predicate - 1, false), entities_.t());
}

at::Tensor ComplexEmbedding::firsts(const at::Tensor& predicate, const at::Tensor& second) const {
  // Re<h, r, conj t> = Re(h conj(t conj r)): without reciprocals the same vectors answer
  const bool reciprocal = relations_.size(0) == 2 * predicates_;
  const at::Tensor relation = reciprocal ? predicate - 1 + predicates_ : predicate - 1;
  return at::mm(query(second, relation, !reciprocal), entities_.t());
}

void ComplexEmbedding::save(const std::string& path, const datalog::Program& program) const {
  const auto numbers = [](const at::Tensor& table) {
    const at::Tensor rows = table.contiguous();
    return std::vector<float>(rows.const_data_ptr<float>(),
                              rows.const_data_ptr<float>() + rows.numel());
  };
  datalog::write_vectors(path, program,
                         {.dim = entities_.size(1) / 2,
                          .constants = numbers(entities_),
                          .predicates = numbers(relations_)});
}

ComplexEmbedding ComplexEmbedding::load(const std::string& path, const datalog::Program& program) {
  const datalog::Vectors vectors = datalog::read_vectors(path, program);
  const auto table = [&](const std::vector<float>& numbers) {
    return at::tensor(numbers).view({-1, 2 * vectors.dim});
  };
  return ComplexEmbedding(table(vectors.constants), table(vectors.predicates),
                          program.predicates.size(), path);
}

}  // namespace maglev
