#include "kernels/products/transpose.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace maglev {
namespace {

TEST(transpose_cpu, writes_the_transpose_and_nothing_else) {
  for (const auto& [rows, columns] : {std::pair{1, 1},
                                      {3, 5},
                                      {4, 4},
                                      {8, 27},
                                      {27, 8},
                                      {64, 64},
                                      {66, 37},
                                      {192, 9},
                                      {5, 192}}) {
    // rows lie further apart than they are long, from anywhere on
    const int64_t from_row = columns + 3, to_row = rows + 5;
    std::vector<float> from(size_t(rows * from_row + 1)), to(size_t(columns * to_row + 1), -1.f);
    for (size_t i = 0; i < from.size(); ++i) from[i] = float(i);
    transpose_cpu({.from = from.data() + 1,
                   .from_row = from_row,
                   .to = to.data() + 1,
                   .to_row = to_row,
                   .rows = rows,
                   .columns = columns});
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t r = 0; r < to_row; ++r)
        ASSERT_EQ(to[size_t(1 + c * to_row + r)],
                  r < rows ? from[size_t(1 + r * from_row + c)] : -1.f)
            << rows << " x " << columns << ", row " << r << ", column " << c;
    EXPECT_EQ(to[0], -1.f);
  }
}

}  // namespace
}  // namespace maglev
