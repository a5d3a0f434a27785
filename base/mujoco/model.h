#pragma once
// A compiled MuJoCo model and the states that are simulated with it.

#include <memory>
#include <string>
#include <vector>

#include "base/mujoco/library.h"

namespace maglev::mujoco {

/// Numbers of a model that an environment relies on.
struct ModelShape {
  int positions, velocities, controls;
  int bodies;  ///< the world among them
  bool operator==(const ModelShape&) const = default;
};

class Model {
 public:
  /// The control suite's model `file` ("walker.xml"), from the Python package dm_control that lies
  /// beside MuJoCo's own. Throws Error when it is missing, does not compile, or has another shape.
  Model(const std::string& file, ModelShape shape);

  const mjModel* get() const { return model_.get(); }
  const mjModel* operator->() const { return model_.get(); }
  /// Only before the first state is made with it.
  mjModel& change() { return *model_; }

  /// Memory that a state of it takes, once it was stepped, about.
  size_t state_memory() const { return state_memory_; }

  /// Index of a body, geom, joint or sensor. Throws Error where there is none of that name.
  int find(mjtObj kind, const char* name) const;
  /// Of the compiled model and MuJoCo's version: states saved under another are not continued.
  std::string hash() const;

 private:
  struct Free {
    void operator()(mjModel* model) const { library().delete_model(model); }
  };
  std::string path_;
  std::unique_ptr<mjModel, Free> model_;
  size_t state_memory_ = 0;
};

/// What is integrated and what is derived from it, of one environment.
class Simulation {
 public:
  /// Empty, until it is begun.
  Simulation() = default;

  /// The model's initial state, with nothing derived yet. `model` outlives it.
  void begin(const Model& model);
  bool begun() const { return model_ != nullptr; }
  const mjData& data() const { return *data_; }
  mjData& change() { return *data_; }

  /// Derives everything from positions and velocities that were set.
  void settle();
  /// `count` steps of the integrator under the controls in data().ctrl. Positions and velocities
  /// and what is derived from them belong together afterwards, as in dm_control ("legacy step").
  void step(int count);
  /// Whether a state was met since begin() that MuJoCo holds for diverged, and reset.
  bool diverged() const;

  /// The state as MuJoCo's integration state, from which a run continues to the bit.
  static size_t saved_numbers(const Model& model);
  void save(mjtNum* to) const;
  /// Takes over what was saved; false where a number is none that MuJoCo would integrate.
  bool load(const Model& model, const mjtNum* from);

 private:
  struct Free {
    void operator()(mjData* data) const { library().delete_data(data); }
  };
  const Model* model_ = nullptr;
  std::unique_ptr<mjData, Free> data_;
};

}  // namespace maglev::mujoco
