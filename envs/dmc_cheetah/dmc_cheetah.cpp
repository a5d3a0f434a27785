#include "dmc_cheetah.h"

namespace maglev::dmc {
namespace {

struct CheetahParts {
  mujoco::Model model{"cheetah.xml", Cheetah::kShape};
  int velocity = model->sensor_adr[model.find(mjOBJ_SENSOR, "torso_subtreelinvel")];
};

const CheetahParts& cheetah() {
  static const CheetahParts parts;
  return parts;
}

}  // namespace

const mujoco::Model& Cheetah::model(Task) { return cheetah().model; }

void Cheetah::begin(Task, const mujoco::Model& model, State& s, Rng& rng) {
  mjData& d = s.simulation.change();
  for (int j = 0; j < model->njnt; ++j)
    if (model->jnt_limited[j])
      d.qpos[j] = uniform(rng, model->jnt_range[2 * j], model->jnt_range[2 * j + 1]);
  // two seconds in which it falls and comes to rest
  s.simulation.settle();
  s.simulation.step(200);
  d.time = 0;
}

void Cheetah::observe(const mujoco::Model&, const State& s, float* to) {
  const mjData& d = s.simulation.data();
  put(put(to, d.qpos + 1, kShape.positions - 1), d.qvel, kShape.velocities);
}

double Cheetah::reward(Task, const mujoco::Model&, const State& s) {
  constexpr double fast = 10;  // metres a second
  return Tolerance{
      .low = fast, .high = kFar, .margin = fast, .falloff = Falloff::linear, .at_margin = 0}(
      s.simulation.data().sensordata[cheetah().velocity]);
}

}  // namespace maglev::dmc
