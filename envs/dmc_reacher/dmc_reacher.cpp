#include "dmc_reacher.h"

namespace maglev::dmc {
namespace {

struct ReacherParts {
  explicit ReacherParts(double target_radius) {
    model.change().geom_size[3 * target] = target_radius;
  }
  mujoco::Model model{"reacher.xml", Reacher::kShape};
  int target = model.find(mjOBJ_GEOM, "target");
  int finger = model.find(mjOBJ_GEOM, "finger");
};

const ReacherParts& reacher(Reacher::Task task) {
  static const ReacherParts easy(0.05), hard(0.015);
  return task == Reacher::Task::easy ? easy : hard;
}

}  // namespace

const mujoco::Model& Reacher::model(Task task) { return reacher(task).model; }

void Reacher::begin(Task, const mujoco::Model& model, State& s, Rng& rng) {
  randomize_joints(model, s.simulation.change(), rng);
  const double angle = uniform(rng, 0, 2 * std::numbers::pi), radius = uniform(rng, 0.05, 0.2);
  s.target = {radius * std::sin(angle), radius * std::cos(angle)};
}

void Reacher::place(const mujoco::Model&, State& s) {
  mjtNum* at = s.simulation.change().geom_xpos + 3 * reacher(kTask).target;
  at[0] = s.target[0], at[1] = s.target[1];
}

void Reacher::observe(const mujoco::Model&, const State& s, float* to) {
  const mjData& d = s.simulation.data();
  const mjtNum* finger = d.geom_xpos + 3 * reacher(kTask).finger;
  to = put(to, d.qpos, kShape.positions);
  *to++ = float(s.target[0] - finger[0]);
  *to++ = float(s.target[1] - finger[1]);
  put(to, d.qvel, kShape.velocities);
}

double Reacher::reward(Task task, const mujoco::Model& model, const State& s) {
  const auto& [unused, target, index] = reacher(task);
  const mjtNum* finger = s.simulation.data().geom_xpos + 3 * index;
  const double distance = std::hypot(s.target[0] - finger[0], s.target[1] - finger[1]);
  const double reach = model->geom_size[3 * target] + model->geom_size[3 * index];
  return Tolerance{.low = 0, .high = reach}(distance);
}

}  // namespace maglev::dmc
