#pragma once
// The convolutional towers of Dreamer V3 (Hafner et al., "Mastering diverse control tasks through
// world models", Nature, 2025), forward and backward, 16 images at a time: a vector is one channel
// at one place of all of them (base/simd/windows.h), so narrow towers fill vectors as wide ones do.
//
// An encoder's stage is a 5 x 5 convolution, 2 x 2 max-pooling, RMS norm over channels, SiLU; a
// decoder's is doubling by nearest neighbours, the convolution, norm and SiLU, and its last stage
// ends in a sigmoid and its error. What is doubled is never made: of 25 taps on a doubled
// image each output meets 9 numbers, so a stage is four 3 x 3 convolutions of the small image, one
// for each corner of its places, with weights that are sums.
//
// Threads: one works on a panel; panels are independent but for the gradients they add to. A row's
// result depends neither on its place nor on its neighbours.

#include <cstdint>
#include <span>

#include "base/simd/windows.h"

namespace maglev {

/// A side as it is halved `stages` times: on the right and below what is missing is filled with
/// zeros, as convolutions have them beyond an edge.
constexpr int64_t filled_side(int64_t side, int64_t stages) {
  return (((side - 1) >> stages) + 1) << stages;
}

/// Sides and channels of an image, and channels behind each halving of it: an encoder goes from the
/// front to the back, a decoder back to front. What a decoder makes beyond the sides is not looked
/// at.
struct ImageTower {
  int64_t height, width;              ///< of the image, any
  std::span<const int64_t> channels;  ///< [stages + 1], the image's first
  /// Factors of the convolutions and of their gradients are bfloat16, sums f32; where
  /// tiles_available() (base/simd/tiles.h).
  bool rounded = false;

  int64_t stages() const { return int64_t(channels.size()) - 1; }
  /// Sides behind `stage` halvings.
  int64_t height_at(int64_t stage) const { return filled_side(height, stages()) >> stage; }
  int64_t width_at(int64_t stage) const { return filled_side(width, stages()) >> stage; }
  /// Numbers of an image, of a row of it, and of what all stages leave of it: [h, w, c], channels
  /// last.
  int64_t pixels() const { return height * row(); }
  int64_t row() const { return width * channels[0]; }
  int64_t token() const {
    return height_at(stages()) * width_at(stages()) * channels[channels.size() - 1];
  }
};

/// A stage's parameters, stages in the order of their tower.
struct TowerStage {
  const float* weight;  ///< [out, in, 5, 5]
  const float* bias;    ///< [out]
  const float* scale;   ///< [out] of the norm; null in the decoder's last stage
};

/// Where their gradients are added.
struct TowerGrad {
  float *weight, *bias, *scale;
};

/// Floats of the weights as the kernels read them, of what a panel's forward pass keeps for the way
/// back, and of what either way works in. All memory is aligned to 64 bytes.
struct TowerSizes {
  int64_t packed, kept, scratch;
};
TowerSizes encoder_sizes(const ImageTower& tower);
TowerSizes decoder_sizes(const ImageTower& tower);

/// Once the weights have moved. `packed` is written.
void pack_encoder_cpu(const ImageTower& tower, std::span<const TowerStage> stages, float* packed);
void pack_decoder_cpu(const ImageTower& tower, std::span<const TowerStage> stages, float* packed);

/// Tokens of up to 16 images, seen as x / 255 - 0.5.
struct EncoderForward {
  ImageTower tower;
  std::span<const TowerStage> stages;
  const float* packed;
  const uint8_t* images;  ///< [count, height, width, channels]
  int64_t count;          ///< 1 to kImageLanes
  float* tokens;          ///< [count, token] written, rows token_row apart
  int64_t token_row;
  float *kept, *scratch;  ///< written
};
void encoder_forward_cpu(const EncoderForward& args);

/// Gradients of the parameters, given those of the tokens.
struct EncoderBackward {
  ImageTower tower;
  std::span<const TowerStage> stages;
  std::span<const TowerGrad> grads;  ///< added to
  const float* packed;
  const uint8_t* images;
  int64_t count;
  const float* d_tokens;  ///< [count, token], rows token_row apart
  int64_t token_row;
  const float* kept;  ///< as forward left it
  float* scratch;
};
void encoder_backward_cpu(const EncoderBackward& args);

/// What a reconstruction s of a number t = byte / 255 costs: (s - t)^2, or in nats
/// -t ln s - (1 - t) ln(1 - s).
enum class ImageError { squared, cross_entropy };

/// Errors of up to 16 reconstructions, summed over pixels and channels.
struct DecoderForward {
  ImageTower tower;
  std::span<const TowerStage> stages;
  const float* packed;
  const float* x;         ///< [count, token]: the smallest image of each
  const uint8_t* images;  ///< [count, height, width, channels]
  int64_t count;
  ImageError error;
  float* loss;            ///< [count] written
  float *kept, *scratch;  ///< written
};
void decoder_forward_cpu(const DecoderForward& args);

struct DecoderBackward {
  ImageTower tower;
  std::span<const TowerStage> stages;
  std::span<const TowerGrad> grads;  ///< added to
  const float* packed;
  const float* x;
  int64_t count;
  const float* d_loss;  ///< [count]
  float* dx;            ///< [count, token] written
  const float* kept;    ///< as forward left it
  float* scratch;
};
void decoder_backward_cpu(const DecoderBackward& args);

}  // namespace maglev
