#include "dmc_walker.h"

namespace maglev::dmc {
namespace {

struct WalkerParts {
  mujoco::Model model{"walker.xml", Walker::kShape};
  int torso = model.find(mjOBJ_BODY, "torso");
  int velocity = model->sensor_adr[model.find(mjOBJ_SENSOR, "torso_subtreelinvel")];
};

const WalkerParts& walker() {
  static const WalkerParts parts;
  return parts;
}

}  // namespace

const mujoco::Model& Walker::model(Task) { return walker().model; }

void Walker::begin(Task, const mujoco::Model& model, State& s, Rng& rng) {
  randomize_joints(model, s.simulation.change(), rng);
}

void Walker::observe(const mujoco::Model& model, const State& s, float* to) {
  const mjData& d = s.simulation.data();
  for (int body = 1; body < model->nbody; ++body) {
    *to++ = float(d.xmat[9 * body]);
    *to++ = float(d.xmat[9 * body + 2]);
  }
  *to++ = float(d.xpos[3 * walker().torso + 2]);
  put(to, d.qvel, kShape.velocities);
}

double Walker::reward(Task task, const mujoco::Model&, const State& s) {
  const mjData& d = s.simulation.data();
  const auto& [model, torso, velocity] = walker();
  constexpr double high = 1.2;  // metres
  const double standing =
      Tolerance{.low = high, .high = kFar, .margin = high / 2}(d.xpos[3 * torso + 2]);
  const double upright = (1 + d.xmat[9 * torso + 8]) / 2;
  const double stand = (3 * standing + upright) / 4;
  if (task == Task::stand) return stand;
  const double fast = task == Task::walk ? 1 : 8;  // metres a second
  const double move = Tolerance{.low = fast,
                                .high = kFar,
                                .margin = fast / 2,
                                .falloff = Falloff::linear,
                                .at_margin = 0.5}(d.sensordata[velocity]);
  return stand * (5 * move + 1) / 6;
}

}  // namespace maglev::dmc
