#include "dmc_cartpole.h"

namespace maglev::dmc {
namespace {

// of the angle of the only pole; body 0 is the world, body 1 the cart
double cosine(const mjData& d) { return d.xmat[9 * 2 + 8]; }
double sine(const mjData& d) { return d.xmat[9 * 2 + 2]; }

bool swings_up(Cartpole::Task task) {
  return task == Cartpole::Task::swingup || task == Cartpole::Task::swingup_sparse;
}

bool is_sparse(Cartpole::Task task) {
  return task == Cartpole::Task::swingup_sparse || task == Cartpole::Task::balance_sparse;
}

}  // namespace

const mujoco::Model& Cartpole::model(Task) {
  static const mujoco::Model model("cartpole.xml", kShape);
  return model;
}

void Cartpole::begin(Task task, const mujoco::Model&, State& s, Rng& rng) {
  mjData& d = s.simulation.change();
  if (swings_up(task)) {
    d.qpos[0] = 0.01 * normal(rng);
    d.qpos[1] = std::numbers::pi + 0.01 * normal(rng);
  } else {
    d.qpos[0] = uniform(rng, -0.1, 0.1);
    d.qpos[1] = uniform(rng, -0.034, 0.034);
  }
  for (int i = 0; i < kShape.velocities; ++i) d.qvel[i] = 0.01 * normal(rng);
}

void Cartpole::observe(const mujoco::Model&, const State& s, float* to) {
  const mjData& d = s.simulation.data();
  *to++ = float(d.qpos[0]);
  *to++ = float(cosine(d));
  *to++ = float(sine(d));
  put(to, d.qvel, kShape.velocities);
}

double Cartpole::reward(Task task, const mujoco::Model&, const State& s) {
  const mjData& d = s.simulation.data();
  if (is_sparse(task))
    return Tolerance{.low = -0.25, .high = 0.25}(d.qpos[0]) *
           Tolerance{.low = 0.995, .high = 1}(cosine(d));
  const double upright = (cosine(d) + 1) / 2;
  const double centred = (1 + Tolerance{.margin = 2}(d.qpos[0])) / 2;
  const double control =
      Tolerance{.margin = 1, .falloff = Falloff::quadratic, .at_margin = 0}(d.ctrl[0]);
  const double slow = (1 + Tolerance{.margin = 5}(d.qvel[1])) / 2;
  return upright * (4 + control) / 5 * slow * centred;
}

}  // namespace maglev::dmc
