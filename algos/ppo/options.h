#pragma once
#include <cstdint>

#include "base/config/options.h"
#include "base/env/spec.h"
#include "engine/nn/network.h"

namespace maglev::ppo {

/// The value loss of a row whose value was clipped: the clipped value's error, or the larger one.
enum class ValueClipLoss { clipped, max };
constexpr auto names_of(ValueClipLoss) { return std::array{"clipped", "max"}; }

/// Which advantages together become mean 0 and deviation 1.
enum class AdvantageNorm { minibatch, batch, off };
constexpr auto names_of(AdvantageNorm) { return std::array{"minibatch", "batch", "off"}; }

/// What one norm of the gradient is taken over.
enum class ClipGrad { global, per_module };
constexpr auto names_of(ClipGrad) { return std::array{"global", "module"}; }

enum class OptimizerKind { adam, muon };
constexpr auto names_of(OptimizerKind) { return std::array{"adam", "muon"}; }

/// Settings of PPO. Values at the end of a linear schedule are shares of the value at its
/// beginning; 1 keeps it constant.
struct Options {
  int64_t rollout = 128;
  int64_t minibatch = 0;
  int64_t sequence = 0;
  int64_t epochs = 4;
  double lr = 3e-4, lr_end = 1;
  double gamma = 0.99, lambda = 0.95;
  double clip = 0.2, clip_end = 1;
  double value_clip = 0, value_clip_end = 1;
  ValueClipLoss value_clip_loss = ValueClipLoss::clipped;
  double value_coef = 0.5;
  double entropy = 0, entropy_end = 1, entropy_until = 1;
  double entropy_floor = 0, entropy_floor_penalty = 0;
  AdvantageNorm normalize_advantage = AdvantageNorm::minibatch;
  bool normalize_reward = false;
  double max_grad_norm = 0.5;
  ClipGrad clip_grad = ClipGrad::global;
  double target_kl = 0;
  double leash = 0;
  OptimizerKind optimizer = OptimizerKind::adam;
  double adam_eps = 1e-5;
  double weight_decay = 0;
  int64_t shard_rows = 0;
  bool fused = true;
  NetworkOptions network;

  /// Time steps that are learned from together: 1, unless the network remembers.
  int64_t sequence_steps() const {
    return network.memory == 0 ? 1 : sequence == 0 ? rollout : sequence;
  }

  void describe(OptionTable& table);
  /// Throws SettingError on settings that contradict each other where a time step has `rows` rows,
  /// Error for a leash beside a memory.
  void check(int64_t rows) const;
  /// AlgoEntry::idle.
  std::string idle(std::string_view setting, const EnvSpec& spec) const;
  /// Throws Error where a minibatch cannot be dealt out to so many processes of `rows` rows each.
  void expect_shares(int64_t rows, int64_t processes) const;
};

}  // namespace maglev::ppo
