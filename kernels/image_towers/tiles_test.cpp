// Towers whose convolutions are rounded to bfloat16, on tiles in software and, where there are
// some, on the processor's: beside the way of vectors with the same numbers rounded. What is around
// software's tiles runs with the instructions that every processor has, the processor's own with
// its best.
#include "tests/emulation/tiles.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include "base/core/bfloat16.h"
#include "kernels/image_towers/decoder-inl.h"
#include "kernels/image_towers/encoder-inl.h"
#include "tests/tower_case.h"

namespace maglev {
namespace {

namespace here = HWY_NAMESPACE;

/// f32 throughout, but for what convolutions read.
class RoundedWay : public here::FloatWay {
 public:
  using FloatWay::FloatWay;
  void see(float* row, const towers::Row& shape) { round(row, shape); }
  void see_for_grads(float* row, const towers::Row& shape) { round(row, shape); }
  void see_slopes(float* row, float*, const towers::Row& shape, bool, int = 0) {
    round(row, shape);
  }

 private:
  static void round(float* row, const towers::Row& shape) {
    for (int64_t i = 0; i < shape.floats(); ++i)
      row[i] = std::bit_cast<float>(uint32_t(bfloat16_bits(row[i])) << 16);
  }
};

template <class Way>
TowerKernels kernels_of(bool rounded) {
  return {.encode = here::encoder_forward<Way>,
          .encode_back = here::encoder_backward<Way>,
          .decode = here::decoder_forward<Way>,
          .decode_back = here::decoder_backward<Way>,
          .rounded = rounded,
          .rounds_packed = !rounded};
}

struct NamedKernels {
  const char* name;
  TowerKernels kernels;
};
std::vector<NamedKernels> tile_kernels() {
  std::vector<NamedKernels> list{
      {"tiles in software", kernels_of<here::TileWay<emulation::Tiles>>(true)}};
  if (tiles_available()) list.push_back({"the processor's tiles", {.rounded = true}});
  return list;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double apart = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    apart += (double(a[i]) - double(b[i])) * (double(a[i]) - double(b[i]));
    size += double(b[i]) * double(b[i]);
  }
  return std::sqrt(apart / size);
}

struct TileTower {
  std::vector<int64_t> channels;
  int64_t height, width;
};
// channels that fill no pair, more than a tile of them, places of the smallest image that are 1 and
// 3, sides that do not halve
const std::vector<TileTower>& tile_towers() {
  static const std::vector<TileTower> list{
      {{3, 8, 12, 16, 16}, 16, 48}, {{3, 8, 5, 16, 7}, 32, 16}, {{1, 5}, 16, 32},
      {{3, 4, 40}, 16, 32},         {{3, 6, 10}, 48, 16},       {{2, 36}, 16, 16},
      {{4, 8, 12, 16, 16}, 10, 10}, {{7, 5, 6}, 9, 21}};
  return list;
}
std::vector<int64_t> full_panel() {
  std::vector<int64_t> all(16);
  for (size_t i = 0; i < all.size(); ++i) all[i] = int64_t(i);
  return all;
}

void expect_close(const TowerCase::Result& ours, const TowerCase::Result& theirs, double bound,
                  const std::string& where) {
  EXPECT_LT(distance(ours.out, theirs.out), bound) << where;
  if (!ours.dx.empty()) {
    EXPECT_LT(distance(ours.dx, theirs.dx), bound) << where;
  }
  for (size_t p = 0; p < ours.grads.size(); ++p) {
    // the last scale of a decoder is none
    const bool none =
        std::all_of(theirs.grads[p].begin(), theirs.grads[p].end(), [](float g) { return g == 0; });
    EXPECT_TRUE(none ? ours.grads[p] == theirs.grads[p]
                     : distance(ours.grads[p], theirs.grads[p]) < bound)
        << where << ", parameter " << p;
  }
}

// a sum whose last place differs may round to the next bfloat16, and another of four places may be
// the largest: few are
TEST(ImageTowersByTiles, are_the_way_of_vectors_with_the_same_numbers_rounded) {
  for (const auto& [name, kernels] : tile_kernels())
    for (bool decoder : {false, true})
      for (const auto& [channels, height, width] : tile_towers()) {
        TowerCase rounded(decoder, channels, height, width, kernels_of<RoundedWay>(false));
        TowerCase tiles(decoder, channels, height, width, kernels);
        TowerCase full(decoder, channels, height, width);
        const std::string where =
            std::string(name) + (decoder ? ", decoder of " : ", encoder of ") +
            std::to_string(channels.size() - 1) + " stages to " + std::to_string(channels.back());
        for (const auto& images : {full_panel(), {3, 9, 0, 12, 7}}) {
          const auto ours = tiles.run(images);
          expect_close(ours, rounded.run(images), 0.05, where);
          EXPECT_GT(distance(ours.out, full.run(images).out), 1e-6) << where << ": not rounded";
        }
      }
}

// memory begins as NaN throughout, so a number that was read before it was written shows
TEST(ImageTowersByTiles, an_image_s_bits_depend_neither_on_its_lane_nor_on_the_others) {
  for (const auto& [name, kernels] : tile_kernels())
    for (bool decoder : {false, true})
      for (const auto& [channels, height, width] : tile_towers()) {
        TowerCase tower(decoder, channels, height, width, kernels);
        const auto whole = tower.run(full_panel());
        for (int64_t n : {0, 6, 15}) {
          const auto one = tower.run({n}), last = tower.run({3, 4, n});
          for (size_t i = 0; i < one.out.size(); ++i) {
            ASSERT_FALSE(std::isnan(one.out[i])) << name;
            ASSERT_EQ(one.out[i], whole.out[size_t(n) * one.out.size() + i]) << name << ", " << n;
            ASSERT_EQ(one.out[i], last.out[2 * one.out.size() + i]) << name << ", " << n;
          }
          for (size_t i = 0; i < one.dx.size(); ++i)
            ASSERT_EQ(one.dx[i], whole.dx[size_t(n) * one.dx.size() + i]) << name << ", " << n;
          for (const auto& grad : one.grads)
            for (float g : grad) ASSERT_FALSE(std::isnan(g)) << name;
        }
      }
}

}  // namespace
}  // namespace maglev
