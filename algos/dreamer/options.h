#pragma once
#include <array>
#include <cstdint>

#include "base/config/choice.h"
#include "base/config/options.h"
#include "base/env/spec.h"

namespace maglev::dreamer {

/// Most classes of a categorical: as a byte, a class that none has.
constexpr int64_t kMostClasses = 255;

/// The published models, by parameters of one that sees images.
enum class ModelSize { m1, m12, m25, m50, m100, m200, m400 };
constexpr auto names_of(ModelSize) {
  return std::array{"1m", "12m", "25m", "50m", "100m", "200m", "400m"};
}

/// What ties the states to what is seen.
enum class Objective {
  reconstruction,  ///< a decoder gives back what was seen
  redundancy       ///< what the states say of the encoder's token agrees with it, number by number
};
constexpr auto names_of(Objective) { return std::array{"reconstruction", "redundancy"}; }

/// Settings of Dreamer V3 (Hafner et al., "Mastering diverse control tasks through world models",
/// Nature, 2025), as its published code of May 2026 has them. Widths of 0 are those of `size`.
struct Options {
  // the world model
  ModelSize size = ModelSize::m12;
  int64_t deter = 0, hidden = 0, classes = 0, depth = 0, units = 0;
  int64_t stoch = 32, blocks = 8;
  double unimix = 0.01;
  bool fused_images = true;

  // its losses
  Objective objective = Objective::reconstruction;
  double free_nats = 1;
  double reconstruction_coef = 1, reward_coef = 1, continue_coef = 1;
  double redundancy_coef = 0.05, off_diagonal = 5e-4;
  double dynamics_coef = 1, representation_coef = 0.1;

  // actor and critic
  int64_t imagination = 15;
  int64_t horizon = 333;
  double lambda = 0.95;
  double entropy_coef = 3e-4;
  double policy_coef = 1, value_coef = 1, replay_value_coef = 0.3;
  double slow_rate = 0.02, slow_coef = 1;
  double range_rate = 0.01;

  // the optimiser
  double lr = 4e-5;
  int64_t warmup = 1000;
  double clip = 0.3;

  // data
  int64_t batch = 16, length = 64;
  int64_t shard = 0;        ///< sequences; 0: by the batch
  int64_t micro_batch = 0;  ///< 0: a shard
  double train_ratio = 32;
  int64_t capacity = 1'000'000;
  int64_t first_steps = 0;
  int64_t update_every = 1;
  OnOff fused;  ///< auto: where nothing is in the way

  /// What a step of the future counts beside the one before it.
  double discount() const { return 1 - 1 / double(horizon); }

  void describe(OptionTable& table);
  /// What each of `processes` learns from: its share of a batch.
  Options share_of(int64_t processes) const;
  /// Throws SettingError on settings that contradict each other.
  void check() const;
  /// AlgoEntry::idle.
  std::string idle(std::string_view setting, const EnvSpec& spec) const;
};

}  // namespace maglev::dreamer
