#pragma once
// The control suite's reacher: an arm of two links in the plane puts its finger on a target.

#include "envs/dmc.h"

namespace maglev {

namespace dmc {
struct Reacher {
  enum class Task : int32_t { easy, hard };
  friend constexpr auto names_of(Task) { return std::array{"easy", "hard"}; }
  static constexpr Task kTask = Task::easy;
  static constexpr mujoco::ModelShape kShape{
      .positions = 2, .velocities = 2, .controls = 2, .bodies = 4};
  static constexpr int kObserved = 6;
  static constexpr int kSubsteps = 1;  ///< of 20 ms

  /// One for each size of the target.
  static const mujoco::Model& model(Task task);
  static void begin(Task task, const mujoco::Model& model, State& s, Rng& rng);
  /// The target is a body of the world that touches nothing: where it lies is the environment's.
  static void place(const mujoco::Model& model, State& s);
  /// Angles, the way from finger to target, velocities.
  static void observe(const mujoco::Model& model, const State& s, float* to);
  static double reward(Task task, const mujoco::Model& model, const State& s);
};
}  // namespace dmc

struct DmcReacher : dmc::Environment<dmc::Reacher> {
  static constexpr const char* kSummary = "control suite: an arm puts its finger on a target";
  static constexpr bool kHostOnly = true;
  static constexpr const char* kLibrary = "MuJoCo";
};

}  // namespace maglev
