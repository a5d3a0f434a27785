#include <cmath>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "kernels/philox/philox_op.h"
#include "tests/close.h"

namespace maglev {
namespace {

PhiloxFill at_step(int64_t step, int64_t first_row = 0, Purpose purpose = Purpose::act) {
  return {
      .seed = 9, .purpose = purpose, .first_row = first_row, .step = step, .rows = 0, .width = 0};
}

at::Tensor philox_normals(int64_t rows, int64_t width, const PhiloxFill& fill) {
  auto out = at::empty({rows, width});
  philox_normal_(out, fill);
  return out;
}

at::Tensor philox_uniforms(int64_t rows, int64_t width, const PhiloxFill& fill) {
  auto out = at::empty({rows, width});
  philox_uniform_(out, fill);
  return out;
}

TEST(PhiloxFill, normals_have_the_moments_of_a_normal) {
  const int64_t n = 1 << 17;
  auto x = philox_normals(n / 4, 4, at_step(1)).to(at::kDouble);
  const double deviation = 1 / std::sqrt(double(n));  // of the mean
  EXPECT_NEAR(x.mean().item<double>(), 0, 4 * deviation);
  EXPECT_NEAR(x.square().mean().item<double>(), 1, 4 * std::sqrt(2.) * deviation);
  EXPECT_NEAR(x.pow(3).mean().item<double>(), 0, 4 * std::sqrt(15.) * deviation);
  EXPECT_NEAR(x.pow(4).mean().item<double>(), 3, 4 * std::sqrt(96.) * deviation);
}

TEST(PhiloxFill, uniforms_are_even_and_never_0_or_1) {
  const int64_t n = 1 << 17;
  auto x = philox_uniforms(n / 8, 8, at_step(2));
  EXPECT_GT(x.min().item<float>(), 0.f);
  EXPECT_LT(x.max().item<float>(), 1.f);
  auto counts = at::histc(x, 64, 0, 1).to(at::kDouble);
  const double expected = double(n) / 64;
  EXPECT_LT(((counts - expected).square() / expected).sum().item<double>(),
            117.0);  // 63 degrees, p = 0.00004
}

TEST(PhiloxFill, neighbouring_rows_steps_and_columns_are_uncorrelated) {
  const int64_t n = 20000;
  auto correlation = [](const at::Tensor& a, const at::Tensor& b) {
    return (a * b).mean().item<double>();
  };
  auto x = philox_normals(n, 3, at_step(5)), later = philox_normals(n, 3, at_step(6));
  const double bound = 4 / std::sqrt(double(n));
  EXPECT_NEAR(correlation(x.select(1, 0), x.select(1, 1)), 0, bound);
  EXPECT_NEAR(correlation(x.select(1, 1), x.select(1, 2)), 0, bound);
  EXPECT_NEAR(correlation(x.select(1, 0), later.select(1, 0)), 0, bound);
  EXPECT_NEAR(correlation(x.narrow(0, 0, n - 1).select(1, 0), x.narrow(0, 1, n - 1).select(1, 0)),
              0, bound);
}

// threads fill blocks of rows: the cut must never show
TEST(PhiloxFill, rows_filled_in_blocks_equal_rows_filled_at_once) {
  for (auto fill : {philox_normals, philox_uniforms}) {
    auto whole = fill(101, 7, at_step(3));
    for (int64_t block : {1, 8, 64}) {
      std::vector<at::Tensor> parts;
      for (int64_t begin = 0; begin < 101; begin += block)
        parts.push_back(fill(std::min<int64_t>(block, 101 - begin), 7, at_step(3, begin)));
      EXPECT_TRUE(close(at::cat(parts), whole, 0)) << "blocks of " << block;
    }
  }
}

TEST(PhiloxFill, purposes_draw_apart) {
  EXPECT_FALSE(at::equal(philox_uniforms(4, 4, at_step(3)),
                         philox_uniforms(4, 4, at_step(3, 0, Purpose::eval))));
}

TEST(PhiloxFill, a_permutation_filled_in_parts_holds_every_index_once) {
  const PermutationKey permutation{.seed = 4, .counter = 2, .n = 1000};
  auto whole = at::empty({1000}, at::kLong), parts = at::empty({1000}, at::kLong);
  fill_permutation(whole, permutation, 0);
  for (int64_t begin = 0; begin < 1000; begin += 300) {
    auto part = parts.narrow(0, begin, std::min<int64_t>(300, 1000 - begin));
    fill_permutation(part, permutation, begin);
  }
  EXPECT_TRUE(close(parts, whole, 0));
  EXPECT_TRUE(close(std::get<0>(whole.sort()), at::arange(1000), 0));
}

// what a captured graph draws at its counter is what a call draws when told the step
TEST(PhiloxFill, a_counter_in_memory_counts_as_the_step_it_adds_up_to) {
  const int64_t base = 70;
  auto counted = at_step(7);
  counted.base = &base;
  EXPECT_TRUE(close(philox_uniforms(8, 4, counted), philox_uniforms(8, 4, at_step(77)), 0));
  EXPECT_TRUE(close(philox_normals(8, 4, counted), philox_normals(8, 4, at_step(77)), 0));
  auto at_counter = at::empty({50}, at::kLong), told = at::empty({50}, at::kLong);
  fill_permutation(at_counter, {.seed = 4, .counter = 1, .n = 50, .base = &base}, 0);
  fill_permutation(told, {.seed = 4, .counter = 71, .n = 50}, 0);
  EXPECT_TRUE(at::equal(at_counter, told));
}

}  // namespace
}  // namespace maglev
