#pragma once
// A convolution's weights as one of its two ways reads them (ways-inl.h).

#include <cstdint>
#include <vector>

#include "base/core/bfloat16.h"
#include "base/simd/window_tiles.h"
#include "kernels/image_towers/layout.h"

namespace maglev::towers {

/// Weights of `outs` outputs, gathered one by one and then written: in blocks of outputs for
/// vectors, or rounded in tiles.
class KernelWeights {
 public:
  KernelWeights(bool rounded, int64_t outs, int64_t rows, int64_t columns, int64_t channels)
      : rounded_(rounded),
        outs_(outs),
        rows_(rows),
        // words hold two channels
        channels_(rounded ? (channels + 1) / 2 * 2 : channels),
        depth_(columns * channels_),
        values_(size_t(outs * rows * depth_)) {}

  float& at(int64_t o, int64_t row, int64_t column, int64_t channel) {
    return values_[size_t((o * rows_ + row) * depth_ + column * channels_ + channel)];
  }

  /// Tiles hold outputs in parts of `half`.
  void write(int64_t half, float* packed) const { rounded_ ? tiles(half, packed) : blocks(packed); }

 private:
  const float* row(int64_t o, int64_t r) const { return values_.data() + (o * rows_ + r) * depth_; }
  void blocks(float* packed) const {
    for (int64_t o = 0; o < outs_; ++o)
      for (int64_t r = 0; r < rows_; ++r)
        for (int64_t j = 0; j < depth_; ++j)
          packed[packed_place(o, r, j, rows_, depth_)] = row(o, r)[j];
  }
  void tiles(int64_t half, float* packed) const {
    auto* to = reinterpret_cast<uint32_t*>(packed);
    for (int64_t first = 0; first < outs_; first += half) {
      const auto word = [&](int64_t o, int64_t r, int64_t j) {
        const float* pair = row(first + o, r) + 2 * j;
        return uint32_t(bfloat16_bits(pair[0])) | uint32_t(bfloat16_bits(pair[1])) << 16;
      };
      write_tile_weights(half, rows_, depth_ / 2, word, to);
      to += tile_weights_size(half, rows_, depth_ / 2);
    }
  }

  bool rounded_;
  int64_t outs_, rows_, channels_, depth_;
  std::vector<float> values_;
};

}  // namespace maglev::towers
