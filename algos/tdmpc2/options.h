#pragma once
#include <cstdint>
#include <string>

#include "base/config/options.h"

namespace maglev::tdmpc2 {

/// Settings of TD-MPC2 (Hansen, Su and Wang, "TD-MPC2: scalable, robust world models for continuous
/// control", ICLR 2024). Widths of 0 are those of `size`.
struct Options {
  // the world model
  std::string size = "5";
  int64_t enc_dim = 0, enc_layers = 0, mlp_dim = 0, latent_dim = 0, num_q = 0;
  int64_t task_dim = 96;
  double dropout = 0.01;
  std::string episodic = "auto";
  std::string q_init = "normal";

  // planning
  bool mpc = true;
  int64_t horizon = 3;
  int64_t iterations = 6;
  int64_t samples = 512, elites = 64, policy_trajectories = 24;
  double temperature = 0.5;
  double min_std = 0.05, max_std = 2;
  std::string terminal_action = "sample";
  std::string termination = "hard";
  bool prune = true;
  std::string fused = "auto";

  // learning
  double lr = 3e-4, enc_lr_scale = 0.3;
  double grad_clip = 20;
  double rho = 0.5;
  double tau = 0.01;
  double discount = 0;
  double entropy_coef = 1e-4;
  double consistency_coef = 20, reward_coef = 0.1, value_coef = 0.1, termination_coef = 1;

  // data
  int64_t batch = 256;
  int64_t capacity = 1'000'000;
  std::string sampling = "trajectory";
  int64_t seed_steps = 0;
  double updates_per_step = 1;
  int64_t update_every = 1;

  void describe(OptionTable& table);
};

}  // namespace maglev::tdmpc2
