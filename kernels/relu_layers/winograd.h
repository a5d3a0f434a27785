#pragma once
// 3 x 3 convolutions, padded or not, their bias and ReLU, by Winograd's minimal filtering F(4 x 4,
// 3 x 3) (Lavin and Gray 2015, arXiv:1509.09308, 4.3): a tile of 4 x 4 places takes 36 products a
// channel and output instead of 144. Channels-last, in f32.
//
//     Y = A^T [ (G g G^T) . (B^T d B) ] A          d: 6 x 6 inputs, g: 3 x 3 weights, Y: 4 x 4 outputs
//
// The product in the middle, at each of its 36 points, is one of matrices: tiles by channels, and
// channels by outputs. The way back is the derivative of just this, each matrix transposed.
// Of evenly sized numbers it rounds 1e-7 of the magnitudes that are summed in the mean and some 1e-6 at
// most, where the sum itself rounds 1e-8 and 1e-7. The largest number that a tile sees is what all of
// its outputs round by, and what is no number spreads over its tile.
// Threads: none; calls whose memory differs may run at once.

#include <cstdint>

namespace maglev {

struct Winograd {
  int64_t images, height, width, channels, outs;  ///< channels and outs multiples of kWinogradStep
  int64_t padding = 1;                            ///< 0 to 2, and no side of the outputs below 1

  int64_t made_height() const { return height + 2 * padding - 2; }
  int64_t made_width() const { return width + 2 * padding - 2; }
  int64_t tiles_across() const { return (made_width() + 3) / 4; }
  int64_t tiles_down() const { return (made_height() + 3) / 4; }
  int64_t tiles() const { return images * tiles_down() * tiles_across(); }
  /// Operations of the product in the middle, of one way: forward, or back to weights or images.
  int64_t flops() const;
  /// Floats that forward and backward work in; they want 64 bytes' alignment.
  int64_t forward_scratch() const;
  int64_t backward_scratch() const;
};
constexpr int64_t kWinogradStep = 16;

struct WinogradForward {
  Winograd shape;
  const float* weight;  ///< [3, 3, channels, outs]
  const float* bias;    ///< [outs]
  const float* x;       ///< [images, height, width, channels]
  float* y;             ///< [images, made_height, made_width, outs], written
  float* scratch;
};
/// An image's outputs do not depend on the images around it.
void winograd_forward_cpu(const WinogradForward& args);

struct WinogradBackward {
  Winograd shape;
  const float* weight;       ///< [3, 3, outs, channels]; unread without dx
  const float *x, *y, *dy;   ///< as above; y as forward gave it
  float *d_weight, *d_bias;  ///< [3, 3, channels, outs] and [outs], written
  float* dx;                 ///< as x, written; null: not asked for
  float* scratch;
};
void winograd_backward_cpu(const WinogradBackward& args);

}  // namespace maglev
