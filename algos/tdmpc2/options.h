#pragma once
#include <cstdint>
#include <vector>

#include "base/config/options.h"
#include "engine/algo/algorithm.h"
#include "kernels/squashed_gaussian/squashed_gaussian.h"

namespace maglev::tdmpc2 {

/// The published models, by millions of parameters.
enum class ModelSize { m1, m5, m19, m48, m317 };
constexpr auto names_of(ModelSize) { return std::array{"1", "5", "19", "48", "317"}; }

/// How the value networks' hidden weights begin.
enum class QInit { normal, kaiming };
constexpr auto names_of(QInit) { return std::array{"normal", "kaiming"}; }

/// The policy's action behind the horizon.
enum class TerminalAction { sample, mean };
constexpr auto names_of(TerminalAction) { return std::array{"sample", "mean"}; }

/// How a plan ends: once the chance exceeds one half, or by the chances' product.
enum class Termination { hard, soft };
constexpr auto names_of(Termination) { return std::array{"hard", "soft"}; }

/// Widths of each network's hidden layers, from its inputs on; as a setting, none: as wide and as
/// many as the model of that size has.
struct HiddenWidths {
  std::vector<int64_t> encoder = {}, dynamics = {}, reward = {}, termination = {}, q = {},
                       policy = {};
};

/// A network by its name in settings, and its widths.
struct NetworkWidths {
  const char* name;
  std::vector<int64_t> HiddenWidths::*widths;
};
/// All networks but the encoder, which sees what the environment shows in place of latents.
constexpr NetworkWidths kHeads[] = {{"dynamics", &HiddenWidths::dynamics},
                                    {"reward", &HiddenWidths::reward},
                                    {"termination", &HiddenWidths::termination},
                                    {"q", &HiddenWidths::q},
                                    {"policy", &HiddenWidths::policy}};

/// Settings of TD-MPC2 (Hansen, Su and Wang, "TD-MPC2: scalable, robust world models for continuous
/// control", ICLR 2024). Widths of 0 are those of `size`.
struct Options {
  // the world model
  ModelSize size = ModelSize::m5;
  int64_t enc_dim = 0, enc_layers = 0, mlp_dim = 0, latent_dim = 0, num_q = 0;
  HiddenWidths hidden;
  int64_t task_dim = 96;
  double dropout = 0.01;
  OnOff episodic;  ///< auto: unless there are several tasks
  QInit q_init = QInit::normal;

  // planning
  bool mpc = true;
  int64_t horizon = 3;
  int64_t iterations = 6;
  int64_t samples = 512, elites = 64, policy_trajectories = 24;
  double temperature = 0.5;
  double min_std = 0.05, max_std = 2;
  TerminalAction terminal_action = TerminalAction::sample;
  Termination termination = Termination::hard;
  bool prune = true;
  OnOff fused;  ///< auto: where nothing is in the way

  // learning
  double lr = 3e-4, enc_lr_scale = 0.3;
  double grad_clip = 20;
  double rho = 0.5;
  double tau = 0.01;
  double discount = 0;
  int64_t image_shift = 3;
  double entropy_coef = 1e-4;
  EntropyOf entropy_of = EntropyOf::gaussian;
  double consistency_coef = 20, reward_coef = 0.1, value_coef = 0.1, termination_coef = 1;

  // data
  int64_t batch = 256;
  int64_t micro_batch = 0;  ///< 0: the batch
  int64_t capacity = 1'000'000;
  SliceSampling sampling = SliceSampling::trajectory;
  int64_t seed_steps = 0;
  double updates_per_step = 1;
  int64_t update_every = 1;

  void describe(OptionTable& table);
  /// What each of `processes` learns from: its share of a batch.
  Options share_of(int64_t processes) const;
  /// Throws SettingError on settings that contradict each other.
  void check() const;
  /// AlgoEntry::idle.
  std::string idle(std::string_view setting, const EnvSpec& spec) const;
};

}  // namespace maglev::tdmpc2
