#pragma once
// The control suite's planar cheetah: two legs of three joints each, and a floor to run on.

#include "envs/dmc.h"

namespace maglev {

namespace dmc {
struct Cheetah {
  enum class Task : int32_t { run };
  friend constexpr auto names_of(Task) { return std::array{"run"}; }
  static constexpr Task kTask = Task::run;
  static constexpr mujoco::ModelShape kShape{
      .positions = 9, .velocities = 9, .controls = 6, .bodies = 8};
  static constexpr int kObserved = 17;
  static constexpr int kSubsteps = 1;  ///< of 10 ms

  static const mujoco::Model& model(Task);
  static void begin(Task task, const mujoco::Model& model, State& s, Rng& rng);
  /// Positions but the one along the track, then velocities.
  static void observe(const mujoco::Model& model, const State& s, float* to);
  static double reward(Task task, const mujoco::Model& model, const State& s);
};
}  // namespace dmc

struct DmcCheetah : dmc::Environment<dmc::Cheetah> {
  static constexpr const char* kSummary = "control suite: a planar cheetah runs";
  static constexpr bool kHostOnly = true;
  static constexpr const char* kLibrary = "MuJoCo";
};

}  // namespace maglev
