#include "base/simd/orthonormal.h"

#include <cmath>
#include <cstring>
#include <new>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "base/core/philox.h"
#include "base/simd/targets.h"

namespace maglev {
namespace {

struct alignas(64) Line {
  double x[8];
};

/// `count` rows of `length` uniform numbers, 0 behind them.
struct Rows {
  Rows(int64_t count, int64_t length)
      : count(count),
        stride((length + kOrthonormalStep - 1) / kOrthonormalStep * kOrthonormalStep),
        lines(size_t(count * stride / 8)) {
    Rng rng(5, 1, 0);
    for (int64_t k = 0; k < count; ++k)
      for (int64_t i = 0; i < length; ++i) row(k)[i] = double(rng.uniform(-1, 1));
  }
  double* row(int64_t k) { return lines.data()->x + k * stride; }
  double dot(int64_t a, int64_t b) {
    double sum = 0;
    for (int64_t i = 0; i < stride; ++i) sum += row(a)[i] * row(b)[i];
    return sum;
  }

  int64_t count, stride;
  std::vector<Line> lines;
};

TEST(Orthonormal, rows_have_length_1_and_stand_square_to_each_other) {
  for (auto [count, length] : {std::pair<int64_t, int64_t>{1, 1}, {5, 7}, {40, 40}, {30, 100}}) {
    Rows rows(count, length);
    orthonormalise(rows.row(0), count, rows.stride);
    for (int64_t a = 0; a < count; ++a)
      for (int64_t b = 0; b <= a; ++b) EXPECT_NEAR(rows.dot(a, b), a == b, 1e-11) << a << " " << b;
  }
}

// Gram and Schmidt's process, not just any basis: the first row keeps its direction
TEST(Orthonormal, each_row_keeps_what_no_row_before_it_holds) {
  Rows before(4, 9), after(4, 9);
  orthonormalise(after.row(0), 4, after.stride);
  for (int64_t k = 0; k < 4; ++k) {
    double along = 0;
    for (int64_t i = 0; i < 9; ++i) along += before.row(k)[i] * after.row(k)[i];
    EXPECT_GT(along, 0) << k;
  }
  for (int64_t i = 0; i < 9; ++i)
    EXPECT_NEAR(after.row(0)[i], before.row(0)[i] / std::sqrt(before.dot(0, 0)), 1e-15);
}

TEST(Orthonormal, gives_the_same_bits_with_vectors_of_every_width) {
  std::vector<Line> first;
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const SimdTargets used(target);
    if (!simd_has_fma()) continue;
    Rows rows(20, 50);
    orthonormalise(rows.row(0), 20, rows.stride);
    if (first.empty()) first = rows.lines;
    EXPECT_EQ(std::memcmp(first.data(), rows.lines.data(), first.size() * sizeof(Line)), 0)
        << hwy::TargetName(target);
  }
}

}  // namespace
}  // namespace maglev
