#pragma once
// How large the world model is and where each of its layers lies in the flat parameter buffer, for
// those who read weights there by their places.

#include <cstdint>
#include <vector>

#include "algos/tdmpc2/options.h"
#include "base/env/spec.h"
#include "engine/nn/flat_params.h"
#include "kernels/two_hot/two_hot.h"

namespace maglev::tdmpc2 {

/// Rewards and values are classified into bins that lie evenly in symlog space.
constexpr int64_t kBins = 101;
constexpr double kBinLow = -10, kBinHigh = 10, kBinSize = (kBinHigh - kBinLow) / (kBins - 1);
constexpr TwoHotBins kTwoHot{.count = kBins, .low = kBinLow, .high = kBinHigh};

/// Sides of the images the convolutional encoder takes.
constexpr int64_t kImageSide = 64;

struct ModelShape {
  int64_t obs = 0;          ///< width of a vector observation; 0: an image
  int64_t channels = 0;     ///< of an image of 64 x 64
  int64_t image_shift = 0;  ///< pixels that images are moved at most, at random
  int64_t actions = 0;      ///< A
  int64_t tasks = 0;        ///< 0: one task, without an embedding
  int64_t task_dim = 0;     ///< T, 0 without tasks
  HiddenWidths hidden;      ///< one layer at least of each; the encoder of images has none
  int64_t latent = 0;       ///< D
  int64_t simnorm = 8;
  int64_t num_q = 0;
  bool episodic = false;
  int64_t alignment = 1;  ///< elements between which parameters begin in the flat buffer

  bool image() const { return channels > 0; }
  /// Hidden widths of all networks but the encoder.
  std::vector<int64_t> head_widths() const;
  /// The widest layer behind the encoder, latents among them.
  int64_t widest() const;
};

/// Throws Error where the model cannot take what the environment shows or wants: categorical
/// actions, cell codes, images of another size or beside vectors.
ModelShape model_shape(const Options& options, const EnvSpec& spec);

/// One fully connected layer, or convolution, in the flat buffer: weight [out, in], bias [out] and,
/// where it is normalised, gain [out] and shift [out], one after another as FlatParams lays them.
struct LayerPlace {
  int64_t in = 0, out = 0;
  bool normed = false;
  int64_t begin = 0;   ///< of the weight
  int64_t kernel = 0;  ///< side of a convolution's window, which `in` counts in; 0: fully connected
  int64_t alignment = 1;

  int64_t weight() const { return begin; }
  int64_t bias() const { return flat_begin(begin + out * in, out == 1, alignment); }
  int64_t gain() const { return flat_begin(bias() + out, out == 1, alignment); }
  int64_t shift() const { return flat_begin(gain() + out, out == 1, alignment); }
  /// Up to where another layer may begin.
  int64_t end() const { return flat_begin((normed ? shift() : bias()) + out, false, alignment); }
};
using MlpPlaces = std::vector<LayerPlace>;

/// The flat buffer, in its order. Layers take their inputs in the order latent, action, task.
struct ModelLayout {
  MlpPlaces encoder, dynamics, reward, termination;  ///< termination: empty unless episodic
  std::vector<MlpPlaces> q;
  int64_t embedding = 0;  ///< [tasks, T]
  MlpPlaces policy;

  int64_t encoder_end() const { return encoder.back().end(); }
  int64_t q_begin() const { return q.front().front().begin; }
  int64_t q_end() const { return q.back().back().end(); }
  /// Parameters of one value network.
  int64_t q_size() const { return q.front().back().end() - q_begin(); }
  /// What is before belongs to the model's optimiser, what follows to the policy's.
  int64_t policy_begin() const { return policy.front().begin; }
  int64_t size() const { return policy.back().end(); }
};

ModelLayout model_layout(const ModelShape& shape);

/// Iterations of a plan: two more from 20 action dimensions on.
int64_t plan_iterations(const Options& options, int64_t actions);

/// Discount for episodes of at most `max_steps` (0: endless): 1 - 5 / max_steps within [0.95,
/// 0.995].
double discount_of(int64_t max_steps);
/// Discount of each task, one where there are none: the option, or from the episodes' lengths.
std::vector<float> discounts(const Options& options, const EnvSpec& spec);
/// Steps of random actions, of all `rows` environments together: the option, or five episodes, one
/// of each row, 1000 steps, whichever is most.
int64_t seed_steps(const Options& options, const EnvSpec& spec, int64_t rows);

}  // namespace maglev::tdmpc2
