#pragma once
// What a planner gets and gives: model-predictive path integral control (Williams et al., 2015) in
// the latent space, for one or many environment rows.

#include <vector>

#include <ATen/core/Tensor.h>

#include "algos/tdmpc2/model_shape.h"
#include "algos/tdmpc2/numbers.h"
#include "algos/tdmpc2/options.h"
#include "engine/algo/algorithm.h"

namespace maglev::tdmpc2 {

/// Numbers of planning, resolved from options and environment.
struct PlanOptions {
  PlanSizes sizes;
  double temperature = 0.5, min_std = 0.05, max_std = 2;
  bool mean_terminal_action = false;  ///< behind the horizon the policy's mean, not a draw
  bool soft_termination = false;
  std::vector<float> discount;  ///< of each task
  at::Tensor action_mask;       ///< [tasks, A] f32; undefined without tasks
};
/// Throws Error where elites, samples or policy trajectories contradict, or a plan would draw more
/// than kPlanNumbers numbers.
PlanOptions plan_options(const Options& options, const ModelShape& shape, const EnvSpec& spec,
                         at::Device device);

/// One plan of N rows.
struct PlanRequest {
  at::Tensor latent;     ///< [N, D] f32
  at::Tensor task;       ///< [N] i64; undefined without tasks
  at::Tensor is_first;   ///< [N] u8: nothing was planned before
  at::Tensor prev_mean;  ///< [N, H, A] f32: where the plan before ended
  ActKey key;
  int64_t first_row = 0;  ///< index of row 0 in the whole run
  bool explore = false;   ///< add noise to the action
};

struct Plan {
  at::Tensor action;  ///< [N, A] f32 in [-1, 1]
  at::Tensor mean;    ///< [N, H, A] f32 of the last round: the next plan begins here
  at::Tensor std;     ///< [N, H, A] f32
  at::Tensor values;  ///< [N, S] f32, of the last round's sequences
  at::Tensor elites;  ///< [N, E] i64, the best of them, best first
  at::Tensor scores;  ///< [N, E] f32, their weights, which sum to 1
};

/// A plan of `rows` rows, uninitialised, on the device of `options`.
Plan empty_plan(const PlanSizes& sizes, int64_t rows, const at::TensorOptions& options);

}  // namespace maglev::tdmpc2
