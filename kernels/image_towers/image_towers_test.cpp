#include "kernels/image_towers/image_towers.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "base/core/philox.h"

namespace maglev {
namespace {

struct alignas(64) Lane {
  float f[16];
};

/// Memory of a kernel, in which nothing is set.
class TowerFloats {
 public:
  explicit TowerFloats(int64_t count, float fill = std::numeric_limits<float>::quiet_NaN())
      : lanes_(size_t(count + 15) / 16) {
    for (auto& lane : lanes_) std::fill_n(lane.f, 16, fill);
  }
  float* data() { return lanes_.data()->f; }

 private:
  std::vector<Lane> lanes_;
};

/// A tower with random parameters, both ways over panels of some of 16 images.
class TowerCase {
 public:
  TowerCase(bool decoder, std::vector<int64_t> channels, int64_t height, int64_t width)
      : decoder_(decoder), channels_(std::move(channels)), tower_{height, width, channels_} {
    Rng rng(11, 3, 0);
    const auto random = [&rng](int64_t count, float scale, float middle) {
      std::vector<float> values(static_cast<size_t>(count));
      for (float& v : values) v = middle + scale * rng.uniform(-1, 1);
      return values;
    };
    for (int64_t s = 0; s < tower_.stages(); ++s) {
      const size_t level = size_t(decoder ? tower_.stages() - s : s);
      const int64_t in = channels_[level], out = channels_[decoder ? level - 1 : level + 1];
      values_.push_back(random(25 * in * out, 2 / std::sqrt(25 * float(in)), 0));
      values_.push_back(random(out, 0.2f, 0));
      values_.push_back(random(out, 0.2f, 1));
      for (size_t i = 0; i < 3; ++i) grads_.emplace_back(values_[values_.size() - 3 + i].size());
    }
    for (size_t s = 0; 3 * s < values_.size(); ++s) {
      const bool scaled = !decoder || 3 * s + 3 < values_.size();
      stages_.push_back({values_[3 * s].data(), values_[3 * s + 1].data(),
                         scaled ? values_[3 * s + 2].data() : nullptr});
      into_.push_back({grads_[3 * s].data(), grads_[3 * s + 1].data(),
                       scaled ? grads_[3 * s + 2].data() : nullptr});
    }
    for (int64_t i = 0; i < 16 * tower_.pixels(); ++i) images_.push_back(uint8_t(rng.below(256)));
    rows_ = random(16 * tower_.token(), 1, 0);
    d_loss_ = random(16, 1, 0);
  }

  struct Result {
    std::vector<float> out, dx;
    std::vector<std::vector<float>> grads;
  };
  /// Images `which`, one a lane.
  Result run(const std::vector<int64_t>& which) {
    const int64_t count = int64_t(which.size()), token = tower_.token();
    const TowerSizes sizes = decoder_ ? decoder_sizes(tower_) : encoder_sizes(tower_);
    TowerFloats packed(sizes.packed), kept(sizes.kept), scratch(sizes.scratch);
    std::vector<uint8_t> images;
    std::vector<float> rows, d_loss;
    for (int64_t n : which) {
      const auto pixels = images_.begin() + n * tower_.pixels();
      images.insert(images.end(), pixels, pixels + tower_.pixels());
      rows.insert(rows.end(), rows_.begin() + n * token, rows_.begin() + (n + 1) * token);
      d_loss.push_back(d_loss_[size_t(n)]);
    }
    for (auto& grad : grads_) std::fill(grad.begin(), grad.end(), 0.f);
    Result r;
    if (decoder_) {
      r.out.resize(size_t(count)), r.dx.resize(size_t(count * token));
      pack_decoder_cpu(tower_, stages_, packed.data());
      decoder_forward_cpu({.tower = tower_,
                           .stages = stages_,
                           .packed = packed.data(),
                           .x = rows.data(),
                           .images = images.data(),
                           .count = count,
                           .loss = r.out.data(),
                           .kept = kept.data(),
                           .scratch = scratch.data()});
      TowerFloats other(sizes.scratch);
      decoder_backward_cpu({.tower = tower_,
                            .stages = stages_,
                            .grads = into_,
                            .packed = packed.data(),
                            .x = rows.data(),
                            .count = count,
                            .d_loss = d_loss.data(),
                            .dx = r.dx.data(),
                            .kept = kept.data(),
                            .scratch = other.data()});
    } else {
      r.out.resize(size_t(count * token));
      pack_encoder_cpu(tower_, stages_, packed.data());
      encoder_forward_cpu({.tower = tower_,
                           .stages = stages_,
                           .packed = packed.data(),
                           .images = images.data(),
                           .count = count,
                           .tokens = r.out.data(),
                           .token_row = token,
                           .kept = kept.data(),
                           .scratch = scratch.data()});
      TowerFloats other(sizes.scratch);
      encoder_backward_cpu({.tower = tower_,
                            .stages = stages_,
                            .grads = into_,
                            .packed = packed.data(),
                            .images = images.data(),
                            .count = count,
                            .d_tokens = rows.data(),
                            .token_row = token,
                            .kept = kept.data(),
                            .scratch = other.data()});
    }
    r.grads = grads_;
    return r;
  }
  int64_t token() const { return tower_.token(); }

 private:
  bool decoder_;
  std::vector<int64_t> channels_;
  ImageTower tower_;
  std::vector<std::vector<float>> values_, grads_;
  std::vector<TowerStage> stages_;
  std::vector<TowerGrad> into_;
  std::vector<uint8_t> images_;
  std::vector<float> rows_, d_loss_;
};

std::vector<int64_t> all_images() {
  std::vector<int64_t> all(16);
  std::iota(all.begin(), all.end(), int64_t(0));
  return all;
}

// memory begins as NaN throughout, so a number that was read before it was written shows
TEST(ImageTowers, an_image_s_bits_depend_neither_on_its_lane_nor_on_the_others) {
  for (bool decoder : {false, true})
    for (const auto& channels : {std::vector<int64_t>{3, 8, 12, 16, 16}, {1, 5}, {3, 4, 40}}) {
      TowerCase tower(decoder, channels, 16, 32);
      const auto whole = tower.run(all_images());
      for (int64_t n : {0, 7, 15}) {
        const auto one = tower.run({n}), last = tower.run({3, 4, n});
        const size_t width = one.out.size();
        for (size_t i = 0; i < width; ++i) {
          ASSERT_EQ(one.out[i], whole.out[size_t(n) * width + i]) << n;
          ASSERT_EQ(one.out[i], last.out[2 * width + i]) << n;
          ASSERT_FALSE(std::isnan(one.out[i]));
        }
        const size_t row = one.dx.size();
        for (size_t i = 0; i < row; ++i) ASSERT_EQ(one.dx[i], whole.dx[size_t(n) * row + i]) << n;
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
