#pragma once
// Images in lanes: a panel of up to 16 images is stored place by place, x[row][place][channel][16],
// so that a vector is one channel at one place of all images. Any number of channels fills vectors,
// weights are read as single numbers, and neither pooling nor a norm over channels moves a lane.

#include <cstdint>

namespace maglev {

/// Images of a panel. Distances in its memory are counted in floats, whole panels of lanes apart.
constexpr int64_t kImageLanes = 16;

/// Outputs of a convolution whose weights lie side by side.
constexpr int64_t kOutBlock = 4;

/// Outputs, rounded up to whole blocks.
constexpr int64_t whole_blocks(int64_t outs) {
  return (outs + kOutBlock - 1) / kOutBlock * kOutBlock;
}

}  // namespace maglev
