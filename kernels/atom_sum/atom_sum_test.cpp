#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "kernels/atom_sum/atom_sum_op.h"
#include "tests/errors.h"

namespace maglev {
namespace {

TEST(AtomSum, of_a_number_that_is_no_row_is_refused) {
  const auto predicates = at::randn({4, 5}), constants = at::randn({9, 5});
  const auto refused = [&](int place, int32_t number) {
    auto goals = at::ones({3, 2, 3}, at::kInt);
    goals.view({-1})[place] = number;
    return error_of([&] { atom_sum(goals, predicates, constants, {1, -1, AtomDivisor::slots}); });
  };
  EXPECT_EQ(refused(15, 3), "");
  EXPECT_EQ(refused(16, 8), "");
  EXPECT_TRUE(contains(refused(15, 4), "predicates must be below 4")) << refused(15, 4);
  EXPECT_TRUE(contains(refused(16, 9), "arguments below 9, got 1(9, 1)")) << refused(16, 9);
  EXPECT_TRUE(contains(refused(17, -1), "got 1(1, -1)")) << refused(17, -1);
}

}  // namespace
}  // namespace maglev
