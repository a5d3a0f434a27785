#include "base/core/permute.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace maglev {
namespace {

TEST(Permutation, every_index_appears_once) {
  for (uint64_t n : {1ull, 2ull, 3ull, 5ull, 64ull, 1000ull, 24576ull}) {
    std::vector<int> seen(n);
    Permutation p(3, 9, n);
    for (uint64_t i = 0; i < n; ++i) seen.at(p(i))++;
    for (int s : seen) ASSERT_EQ(s, 1) << n;
  }
}

// each index lands in each tenth equally often over many permutations: chi-square with 9 degrees of
// freedom
TEST(Permutation, places_are_uniform_over_counters) {
  constexpr uint64_t n = 1000;
  for (uint64_t index : {0ull, 1ull, 499ull, 999ull}) {
    double counts[10] = {};
    for (uint64_t c = 0; c < 10000; ++c) counts[Permutation(5, c, n)(index) / 100] += 1;
    double chi = 0;
    for (double x : counts) chi += (x - 1000) * (x - 1000) / 1000;
    EXPECT_LT(chi, 33.7) << index;  // p = 0.0001
  }
}

// neighbours must not stay neighbours: adjacent pairs land apart as often as chance says
TEST(Permutation, neighbours_part) {
  constexpr uint64_t n = 4096;
  int close = 0;
  for (uint64_t c = 0; c < 20; ++c) {
    Permutation p(11, c, n);
    for (uint64_t i = 0; i + 1 < n; ++i) close += std::abs(int64_t(p(i)) - int64_t(p(i + 1))) <= 8;
  }
  double expected = 20.0 * (n - 1) * 16.0 / n;
  EXPECT_NEAR(close, expected, 5 * std::sqrt(expected));
}

}  // namespace
}  // namespace maglev
