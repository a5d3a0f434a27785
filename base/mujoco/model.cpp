#include "base/mujoco/model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/core/error.h"
#include "base/core/hash.h"
#include "base/core/home.h"

namespace maglev::mujoco {
namespace {

std::string how_to_get_suite() {
  return "; " + how_to_get("mujoco") + ", or pip install dm_control==1.0.50 beside it";
}

std::string suite_file(const std::string& file) {
  const auto path =
      std::filesystem::path(library().folder).parent_path() / "dm_control" / "suite" / file;
  if (!std::filesystem::exists(path))
    throw Error("[mujoco] " + path.string() + " is missing" + how_to_get_suite());
  return path;
}

}  // namespace

Model::Model(const std::string& file, ModelShape shape) : path_(suite_file(file)) {
  char why[1000] = "";
  model_.reset(library().load_xml(path_.c_str(), nullptr, why, sizeof why));
  if (!model_) {
    std::string text = why;
    std::replace(text.begin(), text.end(), '\n', ' ');
    throw Error("[mujoco] " + path_ + " is no model: " + text + how_to_get_suite());
  }
  const ModelShape found{int(model_->nq), int(model_->nv), int(model_->nu), int(model_->nbody)};
  if (found != shape)
    throw Error("[mujoco] " + path_ + " has " + std::to_string(found.positions) + " positions, " +
                std::to_string(found.velocities) + " velocities, " +
                std::to_string(found.controls) + " controls and " + std::to_string(found.bodies) +
                " bodies, expected " + std::to_string(shape.positions) + ", " +
                std::to_string(shape.velocities) + ", " + std::to_string(shape.controls) + " and " +
                std::to_string(shape.bodies) + how_to_get_suite());

  // of its arena, address space alone at first, steps touch some pages
  constexpr size_t kTouched = 32 << 10;
  mjData* data = library().make_data(model_.get());
  MAGLEV_ASSERT(data, "mj_makeData reports what fails");
  state_memory_ = sizeof(mjData) + size_t(data->nbuffer) + kTouched;
  library().delete_data(data);
}

int Model::find(mjtObj kind, const char* name) const {
  const int index = library().name_to_id(model_.get(), kind, name);
  if (index < 0) throw Error("[mujoco] " + path_ + " has no '" + name + "'" + how_to_get_suite());
  return index;
}

std::string Model::hash() const {
  const auto bytes = library().size_model(model_.get());
  std::vector<std::byte> saved(static_cast<size_t>(bytes));
  library().save_model(model_.get(), nullptr, saved.data(), bytes);
  const int version = library().version();
  return Hash().add(saved).add(&version, sizeof version).hex();
}

void Simulation::begin(const Model& model) {
  if (model_ != &model) {
    data_.reset(library().make_data(model.get()));
    MAGLEV_ASSERT(data_, "mj_makeData reports what fails");
    model_ = &model;
  }
  library().reset_data(model.get(), data_.get());
}

void Simulation::settle() { library().forward(model_->get(), data_.get()); }

void Simulation::step(int count) {
  const Library& lib = library();
  const mjModel* model = model_->get();
  mjData* data = data_.get();
  // a first half was done by who set or stepped the state before; Runge-Kutta's steps have no
  // halves
  int whole = count;
  if (model->opt.integrator != mjINT_RK4) lib.step2(model, data), --whole;
  for (int i = 0; i < whole; ++i) lib.step(model, data);
  lib.step1(model, data);
}

bool Simulation::diverged() const {
  // of these the state was put back; others tell of full buffers or inertia and leave it
  const auto warned = [this](mjtWarning w) { return data_->warning[w].number > 0; };
  return warned(mjWARN_BADQPOS) || warned(mjWARN_BADQVEL) || warned(mjWARN_BADQACC) ||
         warned(mjWARN_BADCTRL);
}

size_t Simulation::saved_numbers(const Model& model) {
  return size_t(library().state_size(model.get(), mjSTATE_INTEGRATION));
}

void Simulation::save(mjtNum* to) const {
  library().get_state(model_->get(), data_.get(), to, mjSTATE_INTEGRATION);
}

bool Simulation::load(const Model& model, const mjtNum* from) {
  const size_t count = saved_numbers(model);
  if (!std::all_of(from, from + count, [](mjtNum x) { return std::abs(x) < mjMAXVAL; }))
    return false;
  begin(model);
  library().set_state(model.get(), data_.get(), from, mjSTATE_INTEGRATION);
  library().step1(model.get(), data_.get());
  return !diverged();
}

}  // namespace maglev::mujoco
