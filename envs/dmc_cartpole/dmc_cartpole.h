#pragma once
// The control suite's cart with a pole, which swings up from hanging or is balanced from the top.

#include "envs/dmc.h"

namespace maglev {

namespace dmc {
struct Cartpole {
  enum class Task : int32_t { swingup, swingup_sparse, balance, balance_sparse };
  friend constexpr auto names_of(Task) {
    return std::array{"swingup", "swingup_sparse", "balance", "balance_sparse"};
  }
  static constexpr Task kTask = Task::swingup;
  static constexpr mujoco::ModelShape kShape{
      .positions = 2, .velocities = 2, .controls = 1, .bodies = 3};
  static constexpr int kObserved = 5;
  static constexpr int kSubsteps = 1;  ///< of 10 ms, by Runge and Kutta

  static const mujoco::Model& model(Task);
  static void begin(Task task, const mujoco::Model& model, State& s, Rng& rng);
  /// The cart's place, cosine and sine of the pole's angle, velocities.
  static void observe(const mujoco::Model& model, const State& s, float* to);
  static double reward(Task task, const mujoco::Model& model, const State& s);
};
}  // namespace dmc

struct DmcCartpole : dmc::Environment<dmc::Cartpole> {
  static constexpr const char* kSummary = "control suite: a cart swings a pole up and balances it";
  static constexpr bool kHostOnly = true;
  static constexpr const char* kLibrary = "MuJoCo";
};

}  // namespace maglev
