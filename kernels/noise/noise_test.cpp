#include "kernels/noise/noise.h"

#include <cmath>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "kernels/noise/noise_op.h"
#include "tests/close.h"

namespace maglev {
namespace {

NoiseFill of_stream(uint64_t stream, uint64_t first, int64_t rows = 1) {
  return {.seed = 9, .stream = stream, .first = first, .rows = rows, .count = 0};
}

at::Tensor normals(int64_t count, const NoiseFill& fill) {
  auto out = at::empty({fill.rows, count});
  noise_normal_(out, fill);
  return out;
}

at::Tensor uniforms(int64_t count, const NoiseFill& fill) {
  auto out = at::empty({fill.rows, count});
  noise_uniform_(out, fill);
  return out;
}

TEST(Noise, numbers_are_functions_of_their_index) {
  const uint64_t first = (1ull << 40) + 3;
  auto u = uniforms(37, of_stream(4, first)), z = normals(37, of_stream(4, first));
  for (int64_t i = 0; i < 37; ++i) {
    EXPECT_EQ(u[0][i].item<float>(), uniform(9, 4, first + uint64_t(i)));
    EXPECT_NEAR(z[0][i].item<float>(), normal(9, 4, first + uint64_t(i)), 3e-6);
  }
}

TEST(Noise, a_row_picked_by_its_index_draws_what_it_draws_in_its_place) {
  const std::vector<int64_t> index{1, 2, 5};
  NoiseFill picked = of_stream(8, 3, 3);
  picked.index = index.data();
  for (auto draw : {normals, uniforms})
    EXPECT_TRUE(
        close(draw(9, picked), draw(9, of_stream(8, 3, 6)).index_select(0, at::tensor(index)), 0));
}

// panels draw what they need of a plan's numbers: the cut must never show
TEST(Noise, ranges_drawn_in_parts_equal_the_range_drawn_at_once) {
  for (auto draw : {normals, uniforms}) {
    auto whole = draw(203, of_stream(1, 6));
    for (int64_t part : {1, 4, 7, 64})
      for (int64_t begin = 0; begin < 203; begin += part) {
        const int64_t count = std::min<int64_t>(part, 203 - begin);
        EXPECT_TRUE(close(draw(count, of_stream(1, uint64_t(6 + begin))),
                          whole.narrow(1, begin, count), 0));
      }
  }
}

TEST(Noise, rows_are_streams_of_their_own) {
  auto all = normals(16, of_stream(stream_id(Purpose::act, 5), 0, 3));
  for (int64_t r = 0; r < 3; ++r)
    EXPECT_TRUE(close(normals(16, of_stream(stream_id(Purpose::act, uint64_t(5 + r)), 0)),
                      all.narrow(0, r, 1), 0));
  EXPECT_FALSE(at::equal(all[0], all[1]));
}

// what a captured graph draws at its counter is what a call draws when told the index
TEST(Noise, a_counter_in_memory_counts_as_the_index_it_adds_up_to) {
  const int64_t base = 7;
  auto counted = of_stream(2, 12);
  counted.base = &base, counted.base_scale = 1ull << 26;
  EXPECT_TRUE(close(normals(33, counted), normals(33, of_stream(2, 12 + (7ull << 26))), 0));
}

TEST(Noise, normals_have_the_moments_of_a_normal_and_neighbours_are_uncorrelated) {
  const int64_t n = 1 << 17;
  auto x = normals(n, of_stream(3, 0))[0].to(at::kDouble);
  const double deviation = 1 / std::sqrt(double(n));  // of the mean
  EXPECT_NEAR(x.mean().item<double>(), 0, 4 * deviation);
  EXPECT_NEAR(x.square().mean().item<double>(), 1, 4 * std::sqrt(2.) * deviation);
  EXPECT_NEAR(x.pow(4).mean().item<double>(), 3, 4 * std::sqrt(96.) * deviation);
  for (int64_t lag : {1, 2, 3, 4})
    EXPECT_NEAR((x.narrow(0, lag, n - lag) * x.narrow(0, 0, n - lag)).mean().item<double>(), 0,
                4 * deviation)
        << "lag " << lag;
}

TEST(Noise, uniforms_are_even_and_never_0_or_1) {
  const int64_t n = 1 << 17;
  auto x = uniforms(n, of_stream(8, 0));
  EXPECT_GT(x.min().item<float>(), 0.f);
  EXPECT_LT(x.max().item<float>(), 1.f);
  auto counts = at::histc(x, 64, 0, 1).to(at::kDouble);
  const double expected = double(n) / 64;
  EXPECT_LT(((counts - expected).square() / expected).sum().item<double>(),
            117.0);  // 63 degrees, p = 0.00004
}

}  // namespace
}  // namespace maglev
