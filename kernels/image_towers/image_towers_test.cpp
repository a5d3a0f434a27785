#include "kernels/image_towers/image_towers.h"

#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/tower_case.h"

namespace maglev {
namespace {

std::vector<int64_t> all_images() {
  std::vector<int64_t> all(16);
  std::iota(all.begin(), all.end(), int64_t(0));
  return all;
}

// memory begins as NaN throughout, so a number that was read before it was written shows
TEST(ImageTowers, an_image_s_bits_depend_neither_on_its_lane_nor_on_the_others) {
  for (bool decoder : {false, true})
    for (const auto& channels : {std::vector<int64_t>{3, 8, 12, 16, 16}, {1, 5}, {3, 4, 40}})
      // sides that halve and sides that do not
      for (const auto& [height, width] : {std::pair{16, 32}, std::pair{10, 7}}) {
        TowerCase tower(decoder, channels, height, width);
        const auto whole = tower.run(all_images());
        for (int64_t n : {0, 7, 15}) {
          const auto one = tower.run({n}), last = tower.run({3, 4, n});
          const size_t numbers = one.out.size();
          for (size_t i = 0; i < numbers; ++i) {
            ASSERT_EQ(one.out[i], whole.out[size_t(n) * numbers + i]) << n;
            ASSERT_EQ(one.out[i], last.out[2 * numbers + i]) << n;
            ASSERT_FALSE(std::isnan(one.out[i]));
          }
          const size_t row = one.dx.size();
          for (size_t i = 0; i < row; ++i) ASSERT_EQ(one.dx[i], whole.dx[size_t(n) * row + i]) << n;
          for (const auto& grad : one.grads)
            for (float g : grad) ASSERT_FALSE(std::isnan(g)) << n;
        }
      }
}

TEST(ImageTowers, gradients_are_sums_over_the_images_that_are_there) {
  for (bool decoder : {false, true}) {
    TowerCase tower(decoder, {3, 6, 10}, 16, 16);
    const auto few = tower.run({2, 9, 5});
    std::vector<std::vector<double>> sums;
    for (int64_t n : {2, 9, 5}) {
      const auto one = tower.run({n});
      sums.resize(one.grads.size());
      for (size_t p = 0; p < one.grads.size(); ++p) {
        sums[p].resize(one.grads[p].size());
        for (size_t i = 0; i < sums[p].size(); ++i) sums[p][i] += one.grads[p][i];
      }
    }
    for (size_t p = 0; p < sums.size(); ++p)
      for (size_t i = 0; i < sums[p].size(); ++i)
        ASSERT_NEAR(few.grads[p][i], sums[p][i], 1e-4 * (1 + std::abs(sums[p][i]))) << p;
  }
}

}  // namespace
}  // namespace maglev
