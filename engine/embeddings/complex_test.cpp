#include "engine/embeddings/complex.h"

#include <algorithm>
#include <cmath>
#include <complex>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "base/core/file.h"
#include "engine/embeddings/complex_gradients.h"
#include "engine/host/machine.h"
#include "tests/close.h"
#include "tests/errors.h"
#include "tests/folder.h"

namespace maglev {
namespace {

at::Tensor ids(std::vector<int64_t> values) { return at::tensor(values, at::kLong); }

/// A ring of n towns: next(i, i+1), before(i+1, i), and after next twice.
datalog::Program ring(int n) {
  datalog::Program p;
  const int32_t next = p.predicates.add("next"), before = p.predicates.add("before"),
                second = p.predicates.add("second");
  for (int i = 0; i < n; ++i) p.constants.add("t" + std::to_string(i));
  for (int i = 0; i < n; ++i) {
    const int32_t a = i + 1, b = (i + 1) % n + 1, c = (i + 2) % n + 1;
    p.facts.push_back({next, a, b});
    p.facts.push_back({before, b, a});
    p.facts.push_back({second, a, c});
  }
  return p;
}

TEST(ComplexEmbedding, scores_are_the_real_part_of_the_triple_product) {
  at::manual_seed(1);
  const at::Tensor entities = at::randn({5, 6}), relations = at::randn({4, 6});
  const auto number = [](const at::Tensor& table, int64_t row, int64_t k) {
    return std::complex<double>(table[row][k].item<double>(), table[row][3 + k].item<double>());
  };
  const ComplexEmbedding plain(entities, relations, 4, "test"),
      reciprocal(entities, relations, 2, "test");
  for (int64_t r = 0; r < 4; ++r)
    for (int64_t h = 0; h < 5; ++h)
      for (int64_t t = 0; t < 5; ++t) {
        std::complex<double> sum = 0;
        for (int64_t k = 0; k < 3; ++k)
          sum +=
              number(entities, h, k) * number(relations, r, k) * std::conj(number(entities, t, k));
        EXPECT_NEAR(plain.seconds(ids({r + 1}), ids({h + 1}))[0][t].item<double>(), sum.real(),
                    1e-5);
        EXPECT_NEAR(plain.firsts(ids({r + 1}), ids({t + 1}))[0][h].item<double>(), sum.real(),
                    1e-5);
        // of 2 predicates and their reciprocals, the third is the first the other way round
        if (r >= 2) {
          EXPECT_NEAR(reciprocal.firsts(ids({r - 1}), ids({h + 1}))[0][t].item<double>(),
                      sum.real(), 1e-5);
        }
      }
}

TEST(ComplexEmbedding, learns_what_lies_where_on_a_ring) {
  claim_threads();
  const datalog::Program p = ring(30);
  // every fifth fact is held out: what it says follows from the other two predicates
  std::vector<datalog::Atom> known, held;
  for (size_t i = 0; i < p.facts.size(); ++i) (i % 5 == 4 ? held : known).push_back(p.facts[i]);
  double first = 0, last = 0;
  int64_t batches = 0, asked = 0, all = 0;
  ThreadPool pool(1);
  const auto model = ComplexEmbedding::train(
      known, 30, 3, {.dim = 24, .epochs = 200, .batch = 64, .n3 = 5e-2, .seed = 3}, pool,
      [&](int64_t epoch, double loss) { (epoch ? last : first) = loss; },
      [&](int64_t count, int64_t of) {
        ++batches, asked = count, all = of;
        return true;
      });
  EXPECT_NEAR(first, std::log(30.0), 0.3);
  EXPECT_LT(last, 0.5 * first);
  EXPECT_EQ(all, 200 * 2 * int64_t(known.size()));
  EXPECT_EQ(asked, all);
  EXPECT_GT(batches, 200);
  int right = 0;
  for (const datalog::Atom& a : held) {
    right +=
        model.seconds(ids({a.predicate}), ids({a.first})).argmax().item<int64_t>() == a.second - 1;
    right +=
        model.firsts(ids({a.predicate}), ids({a.second})).argmax().item<int64_t>() == a.first - 1;
  }
  EXPECT_GT(right, int(held.size())) << "of " << 2 * held.size();
}

TEST(ComplexEmbedding, that_is_ended_has_learned_what_it_was_asked) {
  claim_threads();
  const datalog::Program p = ring(30);
  ThreadPool pool(1);
  const int64_t count = 2 * int64_t(p.facts.size());
  const auto model_of = [&](int64_t epochs, int64_t most) {
    int64_t told = 0, asked = 0;
    const auto model = ComplexEmbedding::train(
        p.facts, 30, 3, {.dim = 4, .epochs = epochs, .batch = 64}, pool,
        [&](int64_t, double) { ++told; },
        [&](int64_t until_now, int64_t) { return (asked = until_now) < most; });
    EXPECT_EQ(asked, std::min(most, epochs * count));
    EXPECT_EQ(told, (asked - 1) / count);
    return model.seconds(ids({1, 3}), ids({2, 5}));
  };
  // ended with an epoch, it is one of so many; within an epoch it is not
  EXPECT_TRUE(at::equal(model_of(9, 2 * count), model_of(2, 2 * count)));
  EXPECT_FALSE(at::equal(model_of(9, 2 * count), model_of(9, 2 * count + 64)));
}

TEST(ComplexEmbedding, is_the_same_for_the_same_seed_on_any_number_of_threads) {
  claim_threads();
  // several blocks of questions and of entities
  const datalog::Program p = ring(300);
  const auto scores = [&](uint64_t seed, int threads) {
    ThreadPool pool(threads, [] { at::set_num_threads(1); });
    const auto model = ComplexEmbedding::train(
        p.facts, 300, 3, {.dim = 7, .epochs = 3, .batch = 200, .seed = seed}, pool);
    return model.seconds(ids({1, 3}), ids({2, 5}));
  };
  EXPECT_TRUE(at::equal(scores(1, 1), scores(1, 3)));
  EXPECT_FALSE(at::equal(scores(1, 1), scores(2, 1)));
}

/// The loss as its declaration has it.
at::Tensor loss_of(const at::Tensor& entities, const at::Tensor& relations,
                   const at::Tensor& questions, double n3, at::Tensor& fit) {
  const auto complex = [](const at::Tensor& rows) {
    const int64_t D = rows.size(1) / 2;
    return at::complex(rows.narrow(1, 0, D), rows.narrow(1, D, D));
  };
  const auto of = [&](const at::Tensor& table, int64_t k) {
    return complex(table.index_select(0, questions.select(1, k)));
  };
  const auto known = of(entities, 0), relation = of(relations, 1), answer = of(entities, 2);
  const auto scores = at::real(at::mm(known * relation, complex(entities).conj().t()));
  fit = -scores.log_softmax(1).gather(1, questions.select(1, 2).to(at::kLong).unsqueeze(1)).mean();
  const auto cubes = [](const at::Tensor& z) { return at::abs(z).pow(3).sum(); };
  return fit + n3 / double(questions.size(0)) * (cubes(known) + cubes(relation) + cubes(answer));
}

TEST(ComplexGradients, are_those_of_autograd) {
  claim_threads();
  constexpr int64_t kEntities = 300, kRelations = 5, kDim = 6, kQuestions = 150;
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(3));
  const auto table = [&](int64_t rows) {
    return at::randn({rows, 2 * kDim}, gen).set_requires_grad(true);
  };
  const auto entities = table(kEntities), relations = table(kRelations);
  const auto i32 = at::TensorOptions(at::kInt);
  // the same entity is known, asked for and neither
  const auto questions = at::stack(
      {at::randint(40, {kQuestions}, gen, i32), at::randint(kRelations, {kQuestions}, gen, i32),
       at::randint(kEntities, {kQuestions}, gen, i32)},
      1);
  at::Tensor fit;
  loss_of(entities, relations, questions, 0.3, fit).backward();
  ThreadPool pool(2, [] { at::set_num_threads(1); });
  ComplexGradients ours(kEntities, kDim, 200);
  const double came = ours.compute(entities.detach(), relations.detach(), questions, 0.3, pool);
  const auto bound = Tolerance::of_sums(kEntities + kQuestions + 2 * kDim);
  EXPECT_NEAR(came, fit.item<double>(), bound.share * fit.item<double>());
  EXPECT_TRUE(close(ours.entities(), entities.grad(), bound));
  EXPECT_TRUE(close(ours.relations(), relations.grad(), bound));
}

TEST(ComplexEmbedding, files_follow_names_not_numbers) {
  const datalog::Program p = ring(6);
  ThreadPool pool(1);
  const auto model = ComplexEmbedding::train(p.facts, 6, 3, {.dim = 4, .epochs = 2}, pool);
  const std::string path = test_folder() + "/ring.safetensors";
  model.save(path, p);
  datalog::Program sorted = p;
  sorted.sort_names();  // before, next, second
  const auto again = ComplexEmbedding::load(path, sorted);
  EXPECT_TRUE(at::equal(model.seconds(ids({1}), ids({3})), again.seconds(ids({2}), ids({3}))));
  EXPECT_TRUE(at::equal(model.firsts(ids({2}), ids({4})), again.firsts(ids({1}), ids({4}))));

  datalog::Program other = p;
  other.constants.add("elsewhere");
  EXPECT_TRUE(contains(error_of([&] { ComplexEmbedding::load(path, other); }),
                       "has no vector for 'elsewhere'"));
  write_atomic(path, "nothing");
  EXPECT_THROW(ComplexEmbedding::load(path, p), Error);
}

TEST(ComplexEmbedding, tables_that_do_not_fit_are_refused) {
  ThreadPool pool(1);
  const auto unfit = [] { ComplexEmbedding(at::zeros({3, 4}), at::zeros({2, 6}), 2, "x"); };
  EXPECT_TRUE(contains(error_of(unfit), "got [3, 4] and [2, 6]"));
  EXPECT_TRUE(contains(error_of([&] { ComplexEmbedding::train({}, 3, 1, {}, pool); }), "no facts"));
}

}  // namespace
}  // namespace maglev
