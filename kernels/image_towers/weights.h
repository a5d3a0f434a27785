#pragma once
// A convolution's weights as one of its two ways reads them (ways-inl.h).

#include <bit>
#include <cstdint>
#include <vector>

#include "base/core/bfloat16.h"
#include "base/simd/window_tiles.h"
#include "kernels/image_towers/layout.h"

namespace maglev::towers {

/// Weights of `outs` outputs, gathered one by one and then written.
class KernelWeights {
 public:
  KernelWeights(int64_t outs, int64_t rows, int64_t columns, int64_t channels)
      : outs_(outs),
        rows_(rows),
        columns_(columns),
        channels_(channels),
        values_(size_t(outs * rows * columns * channels)) {}

  float& at(int64_t o, int64_t row, int64_t column, int64_t channel) {
    return values_[size_t(((o * rows_ + row) * columns_ + column) * channels_ + channel)];
  }

  /// In blocks of outputs for vectors; what is not set stays.
  void write_blocks(float* packed) {
    each([&](int64_t o, int64_t r, int64_t k, int64_t c, float value) {
      packed[packed_place(o, r, k * channels_ + c, rows_, columns_ * channels_)] = value;
    });
  }
  /// In tiles, outputs in parts of `half`.
  void write_tiles(int64_t half, float* packed) {
    const int64_t pairs = (channels_ + 1) / 2, depth = columns_ * pairs;
    const int64_t part = tile_weights_size(half, rows_, depth);
    each([&](int64_t o, int64_t r, int64_t k, int64_t c, float value) {
      const uint32_t word = uint32_t(bfloat16_bits(value)) << (c % 2 * 16);
      each_tile_weight(half, rows_, depth, o % half, r, k * pairs + c / 2, [&](int64_t place) {
        float& to = packed[o / half * part + place];
        to = std::bit_cast<float>(std::bit_cast<uint32_t>(to) | word);
      });
    });
  }
  void write(bool rounded, int64_t half, float* packed) {
    rounded ? write_tiles(half, packed) : write_blocks(packed);
  }

 private:
  template <class Each>
  void each(const Each& visit) {
    const float* value = values_.data();
    for (int64_t o = 0; o < outs_; ++o)
      for (int64_t r = 0; r < rows_; ++r)
        for (int64_t k = 0; k < columns_; ++k)
          for (int64_t c = 0; c < channels_; ++c) visit(o, r, k, c, *value++);
  }

  int64_t outs_, rows_, columns_, channels_;
  std::vector<float> values_;
};

}  // namespace maglev::towers
