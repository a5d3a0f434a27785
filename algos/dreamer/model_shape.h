#pragma once
// How large the networks are: what an environment shows and takes, and the widths of a size.

#include <cstdint>
#include <vector>

#include "algos/dreamer/options.h"
#include "base/env/spec.h"
#include "kernels/image_towers/image_towers.h"

namespace maglev::dreamer {

/// Rewards and values are classified into bins.
constexpr int64_t kBins = 255;
/// Convolutions of the encoder, each of which halves the image (filled_side): as many as leave this
/// many places a side, one at least and four at most. The published code has four, and refuses
/// images that they leave less of.
constexpr int64_t kMostStages = 4, kLeastPlaces = 3;
/// Layers of encoder, decoder, policy and value networks.
constexpr int64_t kLayers = 3;

struct ModelShape {
  /// Of all images and grids of cells, one behind another; 0: none.
  int64_t height = 0, width = 0, channels = 0;
  int64_t vector = 0;               ///< width of all vectors side by side
  std::vector<int64_t> heads = {};  ///< categories of each head; empty: continuous
  int64_t actions = 0;              ///< A: dimensions, or the categories of all heads
  int64_t deter = 0, hidden = 0, stoch = 0, classes = 0, blocks = 0;
  int64_t depth = 0, units = 0;
  double unimix = 0;
  /// All that is an image is cells: reconstructions are judged by cross-entropy, as what is
  /// discrete.
  bool cells = false;
  bool decodes = true;        ///< states to what was seen; else a projection of them to tokens
  bool fused_images = false;  ///< kernels/image_towers where the processor computes in f32
  int64_t alignment = 1;      ///< elements between which parameters begin in the flat buffer

  /// Width of the stochastic state as networks take it.
  int64_t flat_stoch() const { return stoch * classes; }
  /// Width of both states side by side.
  int64_t feature() const { return deter + flat_stoch(); }
  /// Convolutions of an image's way in, and of its way out.
  int64_t stages() const;
  /// Sides of an image behind `stage` convolutions of the encoder; places there.
  int64_t height_at(int64_t stage) const { return filled_side(height, stages()) >> stage; }
  int64_t width_at(int64_t stage) const { return filled_side(width, stages()) >> stage; }
  int64_t places_at(int64_t stage) const { return height_at(stage) * width_at(stage); }
  /// Sides of what the convolutions leave of an image, and its channels.
  int64_t small_height() const { return height_at(stages()); }
  int64_t small_width() const { return width_at(stages()); }
  int64_t small_channels() const { return stage_channels(stages() - 1); }
  /// Channels behind convolution `stage`.
  int64_t stage_channels(int64_t stage) const;
  int64_t image_token() const { return small_height() * small_width() * small_channels(); }
  /// Width of what the encoder gives.
  int64_t token() const { return (vector > 0 ? units : 0) + (channels > 0 ? image_token() : 0); }
  ImageError image_error() const { return cells ? ImageError::cross_entropy : ImageError::squared; }
  /// Width of the policy's head.
  int64_t policy_head() const { return heads.empty() ? 2 * actions : actions; }
};

/// Throws Error where the networks cannot take what the environment shows or wants: tokens, images
/// of several sizes, masked actions, actions without bounds.
ModelShape model_shape(const Options& options, const EnvSpec& spec);

}  // namespace maglev::dreamer
