#pragma once
// The control suite's planar walker: two legs under a torso, thrown onto the floor in any pose.

#include "envs/dmc.h"

namespace maglev {

namespace dmc {
struct Walker {
  enum class Task : int32_t { stand, walk, run };
  friend constexpr auto names_of(Task) { return std::array{"stand", "walk", "run"}; }
  static constexpr Task kTask = Task::walk;
  static constexpr mujoco::ModelShape kShape{
      .positions = 9, .velocities = 9, .controls = 6, .bodies = 8};
  static constexpr int kObserved = 24;
  static constexpr int kSubsteps = 10;  ///< of 2.5 ms

  static const mujoco::Model& model(Task);
  static void begin(Task task, const mujoco::Model& model, State& s, Rng& rng);
  /// Where each body's x axis points in the plane, the torso's height, velocities.
  static void observe(const mujoco::Model& model, const State& s, float* to);
  static double reward(Task task, const mujoco::Model& model, const State& s);
};
}  // namespace dmc

struct DmcWalker : dmc::Environment<dmc::Walker> {
  static constexpr const char* kSummary = "control suite: a planar walker stands, walks or runs";
  static constexpr bool kHostOnly = true;
  static constexpr const char* kLibrary = "MuJoCo";
};

}  // namespace maglev
