#pragma once
#include <cstdint>
#include <string>

#include "base/config/options.h"
#include "engine/nn/actor_critic.h"

namespace maglev::ppo {

/// Settings of PPO. Values at the end of a linear schedule are shares of the value at its
/// beginning; 1 keeps it constant.
struct Options {
  int64_t rollout = 128;
  int64_t minibatch = 0;
  int64_t epochs = 4;
  double lr = 3e-4, lr_end = 1;
  double gamma = 0.99, lambda = 0.95;
  double clip = 0.2, clip_end = 1;
  double value_clip = 0;
  std::string value_clip_loss = "clipped";
  double value_coef = 0.5;
  double entropy = 0, entropy_end = 1;
  double entropy_floor = 0, entropy_floor_penalty = 0;
  std::string normalize_advantage = "minibatch";
  bool normalize_reward = false;
  double max_grad_norm = 0.5;
  std::string clip_grad = "global";
  double target_kl = 0;
  std::string optimizer = "adam";
  double adam_eps = 1e-5;
  double weight_decay = 0;
  int64_t shard_rows = 0;
  bool fused = true;
  NetworkOptions network;

  void describe(OptionTable& table);
};

}  // namespace maglev::ppo
