#pragma once
// A tower of kernels/image_towers with random parameters and images, for tests.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/core/bfloat16.h"
#include "base/core/philox.h"
#include "kernels/image_towers/image_towers.h"

namespace maglev {

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

/// Who works on panels.
struct TowerKernels {
  void (*encode)(const EncoderForward&) = encoder_forward_cpu;
  void (*encode_back)(const EncoderBackward&) = encoder_backward_cpu;
  void (*decode)(const DecoderForward&) = decoder_forward_cpu;
  void (*decode_back)(const DecoderBackward&) = decoder_backward_cpu;
  bool rounded = false;        ///< ImageTower::rounded
  bool rounds_packed = false;  ///< packed weights are rounded to bfloat16, still as f32
};

/// A tower with random parameters, both ways over panels of some of 16 images.
class TowerCase {
 public:
  TowerCase(bool decoder, std::vector<int64_t> channels, int64_t height, int64_t width,
            TowerKernels kernels = {})
      : decoder_(decoder),
        kernels_(kernels),
        channels_(std::move(channels)),
        tower_{height, width, channels_, kernels.rounded} {
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
      // biases that rounding leaves as they are
      values_.push_back(random(out, 0.2f, 0));
      for (float& bias : values_.back()) bias = std::round(bias * 64) / 64;
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
      round_packed(packed.data(), sizes.packed);
      kernels_.decode({.tower = tower_,
                       .stages = stages_,
                       .packed = packed.data(),
                       .x = rows.data(),
                       .images = images.data(),
                       .count = count,
                       .loss = r.out.data(),
                       .kept = kept.data(),
                       .scratch = scratch.data()});
      TowerFloats other(sizes.scratch);
      kernels_.decode_back({.tower = tower_,
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
      round_packed(packed.data(), sizes.packed);
      kernels_.encode({.tower = tower_,
                       .stages = stages_,
                       .packed = packed.data(),
                       .images = images.data(),
                       .count = count,
                       .tokens = r.out.data(),
                       .token_row = token,
                       .kept = kept.data(),
                       .scratch = scratch.data()});
      TowerFloats other(sizes.scratch);
      kernels_.encode_back({.tower = tower_,
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
  void round_packed(float* packed, int64_t count) const {
    for (int64_t i = 0; kernels_.rounds_packed && i < count; ++i)
      packed[i] = std::bit_cast<float>(uint32_t(bfloat16_bits(packed[i])) << 16);
  }

  bool decoder_;
  TowerKernels kernels_;
  std::vector<int64_t> channels_;
  ImageTower tower_;
  std::vector<std::vector<float>> values_, grads_;
  std::vector<TowerStage> stages_;
  std::vector<TowerGrad> into_;
  std::vector<uint8_t> images_;
  std::vector<float> rows_, d_loss_;
};

}  // namespace maglev
