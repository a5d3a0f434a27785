#include "engine/embeddings/complex_gradients.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "kernels/keyed_sum/keyed_sum_op.h"

namespace maglev {
namespace {

// what one thread takes at once: products this large run at a processor's rate
constexpr int64_t kQuestions = 64, kEntities = 256;

/// Both halves of complex rows.
std::pair<at::Tensor, at::Tensor> parts(const at::Tensor& rows) {
  const int64_t D = rows.size(1) / 2;
  return {rows.narrow(1, 0, D), rows.narrow(1, D, D)};
}

/// What comes back to rows from the sum of their |z|^3.
at::Tensor cubes_grad(const at::Tensor& rows) {
  const auto [re, im] = parts(rows);
  const auto by = 3 * (re * re + im * im).sqrt();
  return at::cat({by * re, by * im}, 1);
}

template <class Work>
void in_blocks(ThreadPool& pool, int64_t count, int64_t size, const Work& work) {
  pool.run((count + size - 1) / size,
           [&](int64_t block) { work(block * size, std::min(size, count - block * size)); });
}

}  // namespace

at::Tensor complex_product(const at::Tensor& a, const at::Tensor& b, bool conjugate) {
  const auto [ar, ai] = parts(a);
  const auto [br, bi] = parts(b);
  return conjugate ? at::cat({ar * br + ai * bi, ai * br - ar * bi}, 1)
                   : at::cat({ar * br - ai * bi, ar * bi + ai * br}, 1);
}

ComplexGradients::ComplexGradients(int64_t entities, int64_t dim, int64_t batch)
    : scores_(at::empty({batch, entities})),
      d_queries_(at::empty({batch, 2 * dim})),
      fit_(at::empty({batch})),
      d_entities_(at::empty({entities, 2 * dim})) {}

double ComplexGradients::compute(const at::Tensor& entities, const at::Tensor& relations,
                                 const at::Tensor& questions, double n3, ThreadPool& pool) {
  const int64_t B = questions.size(0);
  const auto place = [&](int64_t k) { return questions.select(1, k).contiguous(); };
  const auto known = entities.index_select(0, place(0)),
             relation = relations.index_select(0, place(1)),
             answer = entities.index_select(0, place(2));
  const auto queries = complex_product(known, relation, false);
  const auto answers = place(2).to(at::kLong).unsqueeze(1);

  // questions: their scores against all entities, and what comes back to scores and queries
  in_blocks(pool, B, kQuestions, [&](int64_t first, int64_t count) {
    const auto rows = [&](const at::Tensor& t) { return t.narrow(0, first, count); };
    auto scores = rows(scores_), d_queries = rows(d_queries_);
    at::mm_out(scores, rows(queries), entities.t());
    const auto all = scores.logsumexp(1, /*keepdim=*/true);
    rows(fit_).copy_((all - scores.gather(1, rows(answers))).squeeze(1));
    scores.sub_(all).exp_().scatter_add_(1, rows(answers), at::full({count, 1}, -1.f));
    scores.div_(double(B));
    at::mm_out(d_queries, scores, entities);
  });
  // entities: from every question's scores
  const auto d_scores = scores_.narrow(0, 0, B).t();
  in_blocks(pool, entities.size(0), kEntities, [&](int64_t first, int64_t count) {
    auto rows = d_entities_.narrow(0, first, count);
    at::mm_out(rows, d_scores.narrow(0, first, count), queries);
  });

  // and what was looked up
  const auto d_queries = d_queries_.narrow(0, 0, B);
  const double each = n3 / double(B);
  const auto d_known = complex_product(d_queries, relation, true) + each * cubes_grad(known),
             d_relation = complex_product(d_queries, known, true) + each * cubes_grad(relation);
  d_entities_.add_(keyed_sum(
      {.key = at::cat({place(0), place(2)}), .rows = at::cat({d_known, each * cubes_grad(answer)})},
      entities.size(0)));
  d_relations_ = keyed_sum({.key = place(1), .rows = d_relation}, relations.size(0));
  return fit_.narrow(0, 0, B).to(at::kDouble).mean().item<double>();
}

}  // namespace maglev
