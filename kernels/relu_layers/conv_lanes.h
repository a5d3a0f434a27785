#pragma once
// A network's first convolution, 3 x 3 with padding 1, its bias and ReLU, with images in lanes
// (base/simd/windows.h): few channels leave most of a vector empty where a library puts channels
// there. Forward, and the gradients of its parameters. Threads: one works on a panel.

#include <cstdint>

#include "base/simd/windows.h"

namespace maglev {

struct ConvLanes {
  int64_t height, width, channels, outs;  ///< outs a multiple of kOutBlock

  int64_t pixels() const { return height * width * channels; }
  int64_t places() const { return height * width; }
  /// Floats of the weights as read here, and of a panel's images, outputs and their gradients.
  int64_t packed() const { return outs * 9 * channels; }
  int64_t input() const { return height * (width + 2) * channels * kImageLanes; }
  int64_t output() const { return places() * outs * kImageLanes; }
};

/// weight [outs, channels, 3, 3]; `packed` is written.
void pack_conv_lanes_cpu(const ConvLanes& shape, const float* weight, float* packed);

struct ConvLanesForward {
  ConvLanes shape;
  const float *packed, *bias;
  const float* x;  ///< [count, height, width, channels]
  int64_t count;   ///< 1 to kImageLanes
  float* input;    ///< written, for the way back
  float* output;   ///< likewise
  float* y;        ///< [count, height, width, outs] written
};
void conv_lanes_forward_cpu(const ConvLanesForward& args);

struct ConvLanesBackward {
  ConvLanes shape;
  const float *input, *output;  ///< as forward left them
  const float* dy;              ///< [count, height, width, outs]
  int64_t count;
  float *d_weight, *d_bias;  ///< [3, 3, channels, outs], [outs], added to
  float* scratch;            ///< [output() + outs * kImageLanes]
};
void conv_lanes_backward_cpu(const ConvLanesBackward& args);

}  // namespace maglev
