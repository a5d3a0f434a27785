#pragma once
// Where a tower's parts lie in the memory that is given to it. Counted in floats; every part begins
// at a multiple of 16.

#include <algorithm>
#include <cstdint>

#include "base/simd/window_tiles.h"
#include "kernels/image_towers/image_towers.h"

namespace maglev::towers {

constexpr int64_t kKernel = 5, kPad = kKernel / 2;
/// A kernel on a doubled image as one on the small image, and what that one sees beside a place.
constexpr int64_t kSmallKernel = 3, kSmallPad = kSmallKernel / 2;
/// Rows or columns of the doubled image that a place of the small one is.
constexpr int64_t kDouble = 2;

/// Places whose gradients are in the cache while all weights meet them.
constexpr int64_t kChunkPlaces = 128;

/// Takes parts one behind another.
class Parts {
 public:
  int64_t take(int64_t floats) {
    const int64_t first = end_;
    end_ += (floats + kImageLanes - 1) / kImageLanes * kImageLanes;
    return first;
  }
  int64_t end() const { return end_; }

 private:
  int64_t end_ = 0;
};

/// Floats of weights in blocks of outputs.
inline int64_t packed_floats(int64_t outs, int64_t rows, int64_t depth) {
  return whole_blocks(outs) * rows * depth;
}

/// Where output o, kernel row r and number j of that row lie among packed weights.
inline int64_t packed_place(int64_t o, int64_t r, int64_t j, int64_t rows, int64_t depth) {
  return ((o / kOutBlock * rows + r) * depth + j) * kOutBlock + o % kOutBlock;
}

/// Rows of a chunk, even.
inline int64_t chunk_rows(int64_t width) {
  return std::max<int64_t>(2, kChunkPlaces / width / 2 * 2);
}

/// A row of an image in lanes with what lies beside it.
struct Row {
  int64_t width, channels, pad;

  int64_t floats() const { return (width + 2 * pad) * channels * kImageLanes; }
  int64_t sides() const { return pad * channels * kImageLanes; }
  int64_t pairs() const { return (channels + 1) / 2; }  ///< of channels
  int64_t slope_words() const { return (width + 1) / 2 * channels * kImageLanes; }
};

/// Floats of the weights of `outs` outputs over `columns` columns of `channels` channels.
inline int64_t weight_floats(bool rounded, int64_t outs, int64_t rows, int64_t columns,
                             int64_t channels) {
  if (rounded) return tile_weights_size(outs, rows, columns * ((channels + 1) / 2));
  return packed_floats(outs, rows, columns * channels);
}

/// Where a way that rounds works: two rows as they are written, and the slopes' words.
struct WayScratch {
  int64_t row = 0, row_floats = 0, pairs = 0;

  // takes them where they are wanted
  void take(Parts& parts, bool rounded, int64_t largest_row, int64_t largest_pairs) {
    if (!rounded) return;
    row_floats = largest_row;
    row = parts.take(2 * row_floats);
    pairs = parts.take(largest_pairs);
  }
};

// a stage of an encoder: its shape, and where its weights and what it keeps lie
struct EncoderStage {
  int64_t in, out, height, width;       // of the convolution
  int64_t weight, start, turned, none;  // packed: forward, bias; back to its inputs, zeros
  int64_t pooled, corner;               // kept: before the norm; which of four was the largest

  Row seen() const { return {width, in, kPad}; }
  Row slopes() const { return {width, out, kPad}; }
  int64_t pooled_row() const { return width / 2 * out * kImageLanes; }
};

// calls visit(s, stage) stage by stage; returns what is packed and kept
template <class Visit>
TowerSizes each_encoder_stage(const ImageTower& tower, const Visit& visit) {
  Parts packed, kept;
  for (int64_t s = 0; s < tower.stages(); ++s) {
    EncoderStage stage{.in = tower.channels[s],
                       .out = tower.channels[s + 1],
                       .height = tower.height_at(s),
                       .width = tower.width_at(s)};
    stage.weight = packed.take(weight_floats(tower.rounded, stage.out, kKernel, kKernel, stage.in));
    stage.start = packed.take(whole_blocks(stage.out));
    stage.turned = packed.take(weight_floats(tower.rounded, stage.in, kKernel, kKernel, stage.out));
    stage.none = packed.take(whole_blocks(stage.in));
    const int64_t places = stage.height * stage.width / 4 * stage.out * kImageLanes;
    stage.pooled = kept.take(places);
    stage.corner = kept.take(places / int64_t(sizeof(float)));
    visit(s, stage);
  }
  return {packed.end(), kept.end(), 0};
}

inline EncoderStage encoder_stage(const ImageTower& tower, int64_t wanted) {
  EncoderStage found{};
  each_encoder_stage(tower, [&](int64_t s, const EncoderStage& stage) {
    if (s == wanted) found = stage;
  });
  return found;
}

/// Floats of an image as convolutions see it. Words for gradients have rows above and below, and
/// the last window reads further.
inline int64_t seen_floats(const ImageTower& tower, int64_t height, const Row& row) {
  return tower.rounded ? (height + 2 * row.pad) * row.floats() + kTileSide : height * row.floats();
}
/// And of a row that is written to be rounded.
inline int64_t written_floats(const Row& row) { return row.floats() + row.channels * kImageLanes; }

// both directions take the same memory in their own ways
struct EncoderScratch {
  int64_t input, output, rows, slopes, weight, lanes, end;
  WayScratch way;

  explicit EncoderScratch(const ImageTower& tower) {
    int64_t largest_in = 0, largest_out = 0, widest = 0, largest_slope = 0, weights = 0, most = 0;
    int64_t largest_row = 0, pairs = 0;
    each_encoder_stage(tower, [&](int64_t s, const EncoderStage& stage) {
      largest_in = std::max(largest_in, seen_floats(tower, stage.height, stage.seen()));
      largest_out = std::max(largest_out, stage.height / 2 * stage.pooled_row());
      widest = std::max(widest, 2 * stage.width * stage.out * kImageLanes);
      // of the image nobody asks for the gradient: its chunks are enough
      const int64_t rows = s > 0 ? stage.height : tower.rounded ? 0 : chunk_rows(stage.width);
      largest_slope = std::max(largest_slope, rows * stage.slopes().floats());
      weights = std::max(weights, kKernel * kKernel * stage.in * stage.out);
      most = std::max(most, stage.out);
      largest_row =
          std::max({largest_row, written_floats(stage.seen()), written_floats(stage.slopes())});
      pairs = std::max(pairs, stage.height * stage.slopes().slope_words());
    });
    Parts parts;
    // the two change places stage by stage
    input = parts.take(std::max(largest_in, largest_out));
    output = parts.take(std::max(largest_in, largest_out));
    rows = parts.take(widest);
    slopes = parts.take(largest_slope);
    weight = parts.take(weights);
    lanes = parts.take(2 * most * kImageLanes);
    way.take(parts, tower.rounded, largest_row, pairs);
    end = parts.end();
  }
};

// a stage of a decoder, by the image before it is doubled
struct DecoderStage {
  int64_t in, out, height, width;
  bool last;
  int64_t weight, start, turned, none;  // as an encoder's
  int64_t made;                         // kept: before the norm, or the last stage's gradient

  // outputs of a place: all of the four it becomes, row by row
  int64_t outs() const { return kDouble * kDouble * out; }
  int64_t pair() const { return kDouble * out; }
  // a window back over the doubled image
  int64_t turned_rows() const { return kSmallKernel * kDouble; }
  int64_t made_row() const { return width * pair() * kImageLanes; }
  Row seen() const { return {width, in, kSmallPad}; }
  Row slopes() const { return {width, pair(), kSmallPad}; }
};

template <class Visit>
TowerSizes each_decoder_stage(const ImageTower& tower, const Visit& visit) {
  Parts packed, kept;
  for (int64_t s = 0; s < tower.stages(); ++s) {
    const int64_t level = tower.stages() - s;
    DecoderStage stage{.in = tower.channels[level],
                       .out = tower.channels[level - 1],
                       .height = tower.height_at(level),
                       .width = tower.width_at(level),
                       .last = level == 1};
    // tiles hold outputs of one row of what is made
    const int64_t halves = tower.rounded ? kDouble : 1;
    stage.weight = packed.take(halves * weight_floats(tower.rounded, stage.outs() / halves,
                                                      kSmallKernel, kSmallKernel, stage.in));
    stage.start = packed.take(whole_blocks(stage.outs()));
    stage.turned = packed.take(
        weight_floats(tower.rounded, stage.in, stage.turned_rows(), kSmallKernel, stage.pair()));
    stage.none = packed.take(whole_blocks(stage.in));
    stage.made = kept.take(kDouble * stage.height * stage.made_row());
    visit(s, stage);
  }
  return {packed.end(), kept.end(), 0};
}

inline DecoderStage decoder_stage(const ImageTower& tower, int64_t wanted) {
  DecoderStage found{};
  each_decoder_stage(tower, [&](int64_t s, const DecoderStage& stage) {
    if (s == wanted) found = stage;
  });
  return found;
}

struct DecoderScratch {
  int64_t input, output, slopes, below, pixels, weight, lanes, end;
  WayScratch way;

  explicit DecoderScratch(const ImageTower& tower) {
    int64_t largest_in = 0, largest_slope = 0, weights = 0, most = 0, largest_row = 0, pairs = 0;
    each_decoder_stage(tower, [&](int64_t, const DecoderStage& stage) {
      largest_in = std::max(largest_in, seen_floats(tower, stage.height, stage.seen()));
      largest_slope = std::max(largest_slope, kDouble * stage.height * stage.slopes().floats());
      weights = std::max(weights, kSmallKernel * kSmallKernel * stage.in * stage.outs());
      most = std::max({most, stage.in, stage.out});
      largest_row =
          std::max({largest_row, written_floats(stage.seen()), written_floats(stage.slopes())});
      pairs = std::max(pairs, kDouble * stage.height * stage.slopes().slope_words());
    });
    Parts parts;
    input = parts.take(largest_in);
    output = parts.take(largest_in);
    // the two change places stage by stage; what lies below the first is the gradient of x
    slopes = parts.take(std::max(largest_slope, largest_in));
    below = parts.take(std::max(largest_slope, largest_in));
    pixels = parts.take(tower.row() * kImageLanes);
    weight = parts.take(weights);
    lanes = parts.take(2 * most * kImageLanes);
    way.take(parts, tower.rounded, largest_row, pairs);
    end = parts.end();
  }
};

}  // namespace maglev::towers
