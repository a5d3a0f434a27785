#include "engine/embeddings/complex.h"

#include <cmath>
#include <complex>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "base/core/file.h"
#include "engine/host/machine.h"
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
  const auto model = ComplexEmbedding::train(
      known, 30, 3, {.dim = 24, .epochs = 200, .batch = 64, .n3 = 5e-2, .seed = 3},
      [&](int64_t epoch, double loss) { (epoch ? last : first) = loss; });
  EXPECT_NEAR(first, std::log(30.0), 0.3);
  EXPECT_LT(last, 0.5 * first);
  int right = 0;
  for (const datalog::Atom& a : held) {
    right +=
        model.seconds(ids({a.predicate}), ids({a.first})).argmax().item<int64_t>() == a.second - 1;
    right +=
        model.firsts(ids({a.predicate}), ids({a.second})).argmax().item<int64_t>() == a.first - 1;
  }
  EXPECT_GT(right, int(held.size())) << "of " << 2 * held.size();
}

TEST(ComplexEmbedding, is_the_same_for_the_same_seed) {
  claim_threads();
  const datalog::Program p = ring(9);
  const auto scores = [&](uint64_t seed) {
    const auto model =
        ComplexEmbedding::train(p.facts, 9, 3, {.dim = 4, .epochs = 3, .batch = 10, .seed = seed});
    return model.seconds(ids({1, 3}), ids({2, 5}));
  };
  EXPECT_TRUE(at::equal(scores(1), scores(1)));
  EXPECT_FALSE(at::equal(scores(1), scores(2)));
}

TEST(ComplexEmbedding, files_follow_names_not_numbers) {
  const datalog::Program p = ring(6);
  const auto model = ComplexEmbedding::train(p.facts, 6, 3, {.dim = 4, .epochs = 2});
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
  const auto unfit = [] { ComplexEmbedding(at::zeros({3, 4}), at::zeros({2, 6}), 2, "x"); };
  EXPECT_TRUE(contains(error_of(unfit), "got [3, 4] and [2, 6]"));
  EXPECT_TRUE(contains(error_of([] { ComplexEmbedding::train({}, 3, 1, {}); }), "no facts"));
}

}  // namespace
}  // namespace maglev
