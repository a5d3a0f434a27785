#pragma once
// What the domains of the DeepMind control suite share (Tunyasuvunakool et al., "dm_control:
// Software and Tasks for Continuous Control", 2020): a MuJoCo model of the suite's, an episode of
// 1,000 control steps that nothing but its limit ends, rewards in [0, 1], and observations as
// numbers, as pictures or both. Models are those of the Python package dm_control 1.0.50; what
// happens at a reset, what is shown and what is rewarded is written here after it. See
// docs/mujoco.md.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <string>
#include <string_view>

#include "base/core/hash.h"
#include "base/env/env.h"
#include "base/mujoco/gl_context.h"
#include "base/mujoco/model.h"
#include "base/mujoco/renderer.h"
#include "base/picture/canvas.h"

namespace maglev::dmc {

enum class Observe : int32_t { vector, image, both };
constexpr auto names_of(Observe) { return std::array{"vector", "image", "both"}; }

/// Which of a domain's tasks episodes are of: env.task's alone; any, which a column `task` tells; or
/// env.task's alone, told as among all, by which a policy of all is judged in one.
enum class Tasks : int32_t { one, all, told };
constexpr auto names_of(Tasks) { return std::array{"one", "all", "told"}; }

/// Settings of every domain, behind its task.
struct Settings {
  int32_t max_steps = 1000;
  int32_t action_repeat = 1;
  Observe observe = Observe::vector;
  int32_t width = 64, height = 64;
  int32_t camera = 0;
  bool shadows = false;
  int32_t samples = 0;

  static void describe(OptionTable& t, Settings& p) {
    t.add("max_steps", p.max_steps, "episode limit",
          {.min = 1, .max = 1e9, .unit = "control steps"});
    t.add("action_repeat", p.action_repeat,
          "control steps an action is held for, whose rewards are added up",
          {.min = 1, .max = 100, .unit = "control steps"});
    t.add("observe", p.observe, "numbers, a picture, or both");
    t.add("width", p.width, "of a picture", {.min = 8, .max = 1024, .unit = "pixels"});
    t.add("height", p.height, "of a picture", {.min = 8, .max = 1024, .unit = "pixels"});
    t.add("camera", p.camera, "of the model's two", {.min = 0, .max = 1});
    t.add("shadows", p.shadows, "draw them, as dm_control does; without a GPU that is slow");
    t.add("samples", p.samples, "of a pixel, which smooth edges; dm_control takes 4",
          {.min = 0, .max = 16});
  }

  static std::string idle(const Settings& p, std::string_view name) {
    const bool sized = name == "width" || name == "height";
    return sized && !p.shows_image() ? "with env.observe=vector no picture is seen" : "";
  }

  bool shows_vector() const { return observe != Observe::image; }
  bool shows_image() const { return observe != Observe::vector; }
  mujoco::PictureOptions picture() const {
    return {
        .width = width, .height = height, .camera = camera, .shadows = shadows, .samples = samples};
  }
};

struct State {
  mujoco::Simulation simulation;
  std::array<double, 2> target{};  ///< where reacher's lies; 0 in other domains
  int32_t steps = 0;               ///< of this episode
  int32_t task = 0;                ///< of the domain's, this episode's
};

/// How a reward falls off beside its bounds, as a function of the distance in margins.
enum class Falloff { gaussian, linear, quadratic };

/// What `x` is rewarded with: 1 within [low, high], falling off beside it to `at_margin` at the
/// distance `margin`. Without a margin nothing is given outside.
struct Tolerance {
  double low = 0, high = 0;
  double margin = 0;
  Falloff falloff = Falloff::gaussian;
  double at_margin = 0.1;

  double operator()(double x) const {
    if (low <= x && x <= high) return 1;
    if (margin == 0) return 0;
    const double distance = (x < low ? low - x : x - high) / margin;
    if (falloff == Falloff::gaussian) return std::exp(std::log(at_margin) * distance * distance);
    // x^p falls to 0, where at_margin = 1 - scale^p
    const bool linear = falloff == Falloff::linear;
    const double scaled = distance * (linear ? 1 - at_margin : std::sqrt(1 - at_margin));
    return scaled < 1 ? 1 - (linear ? scaled : scaled * scaled) : 0;
  }
};

constexpr double kFar = std::numeric_limits<double>::infinity();

inline double uniform(Rng& rng, double low, double high) {
  return low + (high - low) * double(rng.uniform());
}
/// Standard normal, by Box and Muller.
inline double normal(Rng& rng) {
  const double radius = std::sqrt(-2 * std::log(1 - double(rng.uniform())));
  return radius * std::cos(2 * std::numbers::pi * double(rng.uniform()));
}

/// Sets limited joints evenly within their range, and hinges without one to any angle.
inline void randomize_joints(const mujoco::Model& model, mjData& data, Rng& rng) {
  for (int j = 0; j < model->njnt; ++j) {
    double& position = data.qpos[model->jnt_qposadr[j]];
    const mjtNum* range = model->jnt_range + 2 * j;
    if (model->jnt_limited[j]) position = uniform(rng, range[0], range[1]);
    else if (model->jnt_type[j] == mjJNT_HINGE)
      position = uniform(rng, -std::numbers::pi, std::numbers::pi);
  }
}

/// Copies `count` numbers and returns what follows.
inline float* put(float* to, const mjtNum* from, int count) {
  for (int i = 0; i < count; ++i) to[i] = float(from[i]);
  return to + count;
}

/// An environment of a domain, which has
///   Task                 its tasks, an enum with names; kTask is the one by default
///   kShape, kObserved    numbers of its model, and how many it shows
///   kSubsteps            of the integrator a control step
///   model(task)          its model, loaded at the first call
///   begin(task, model, state, rng)  sets positions and velocities of a new episode
///   place(model, state)  optional: puts what is no part of the integrated state
///   observe(model, state, to), reward(task, model, state)
template <class Domain>
struct Environment {
  using Task = typename Domain::Task;
  static constexpr bool kShowsImages = true;
  static constexpr auto kNames = names_of(Task{});

  struct Params : Settings {
    Task task = Domain::kTask;
    Tasks tasks = Tasks::one;

    static void describe(OptionTable& t, Params& p) {
      t.add("task", p.task, "what is rewarded");
      if (kNames.size() > 1)
        t.add("tasks", p.tasks,
              "one: env.task alone; all: an episode is of any task, which a column tells; told: "
              "env.task alone, told as among all");
      Settings::describe(t, p);
    }
    static std::string idle(const Params& p, std::string_view name) {
      if (name == "task" && p.tasks == Tasks::all)
        return "with env.tasks=all an episode is of any; env.tasks=told plays one";
      return Settings::idle(p, name);
    }
    bool several() const { return tasks != Tasks::one; }
  };
  using State = dmc::State;

  /// Says of a saved run which model and which MuJoCo it was.
  struct Assets {
    char model[32];
  };

  static EnvSpec spec(const Params& p) {
    EnvSpec spec;
    if (p.shows_vector())
      spec.observations.push_back({.name = "vector", .shape = {Domain::kObserved}});
    if (p.shows_image())
      spec.observations.push_back(
          {.name = "image", .dtype = DType::u8, .shape = {p.height, p.width, 3}});
    const size_t controls = size_t(Domain::kShape.controls);
    spec.action = {.low = std::vector<float>(controls, -1.f),
                   .high = std::vector<float>(controls, 1.f)};
    spec.max_steps = (p.max_steps + p.action_repeat - 1) / p.action_repeat;
    spec.events = {"diverged"};
    if (!p.several()) return spec;
    spec.observations.push_back({.name = "task", .dtype = DType::i32, .shape = {1}});
    for (const char* name : kNames)
      spec.tasks.push_back({.name = name,
                            .obs_dims = Domain::kObserved,
                            .action_dims = Domain::kShape.controls,
                            .max_steps = spec.max_steps});
    return spec;
  }

  static void make_assets(const Params& p, Assets& assets) {
    std::string hash = Domain::model(p.task).hash();
    if (p.tasks == Tasks::all) {
      Hash all;
      for (size_t task = 0; task < kNames.size(); ++task)
        all.add_text(Domain::model(Task(task)).hash());
      hash = all.hex();
    }
    std::memcpy(assets.model, hash.data(), sizeof assets.model);
    // a machine without OpenGL is told before anything has begun
    if (p.shows_image()) mujoco::expect_pictures();
  }

  static void reset(const Params& p, const Assets&, State& s, Rng& rng) {
    s.task = p.tasks == Tasks::all ? int32_t(rng.below(uint32_t(kNames.size()))) : int32_t(p.task);
    const mujoco::Model& model = model_of(s);
    s.steps = 0;
    s.simulation.begin(model);
    Domain::begin(Task(s.task), model, s, rng);
    s.simulation.settle();
    place(model, s);
  }

  static void step(const Params& p, const Assets&, State& s, const Actions& action, Rng&,
                   StepOut& out) {
    const mujoco::Model& model = model_of(s);
    mjtNum* control = s.simulation.change().ctrl;
    for (int i = 0; i < Domain::kShape.controls; ++i)
      control[i] = std::clamp(action.continuous[i], -1.f, 1.f);
    double reward = 0;
    out.truncated = false;
    for (int i = 0; i < p.action_repeat && !out.truncated; ++i) {
      s.simulation.step(Domain::kSubsteps);
      place(model, s);
      s.steps += 1;
      // never seen; dm_control throws. MuJoCo has put the state back to its first one
      const bool diverged = s.simulation.diverged();
      if (diverged) out.count(0, 1.f);
      else reward += Domain::reward(Task(s.task), model, s);
      out.truncated = diverged || s.steps >= p.max_steps;
    }
    out.reward[0] = float(reward);
  }

  static void observe(const Params& p, const Assets&, const State& s, int, const ObsOut& out) {
    const mujoco::Model& model = model_of(s);
    int column = 0;
    if (p.shows_vector()) Domain::observe(model, s, out.as<float>(column++));
    if (p.shows_image())
      mujoco::render(model, s.simulation, p.picture(), out.as<uint8_t>(column++));
    if (p.several()) out.as<int32_t>(column)[0] = s.task;
  }

  static void paint(const Params& p, const Assets&, const State& s, Canvas& canvas) {
    mujoco::PictureOptions picture = p.picture();
    picture.width = canvas.width(), picture.height = canvas.height();
    static_assert(sizeof(Rgb) == 3);
    mujoco::render(model_of(s), s.simulation, picture,
                   reinterpret_cast<uint8_t*>(canvas.pixels().data()));
  }

  static size_t held_bytes(const Params& p) { return Domain::model(p.task).state_memory(); }

  // the step, the target, the task where there are several, then MuJoCo's integration state
  static size_t state_bytes(const Params& p) {
    return sizeof(double) *
           (own_numbers(p) + mujoco::Simulation::saved_numbers(Domain::model(p.task)));
  }
  static void save(const Params& p, const State& s, std::byte* to) {
    if (!s.simulation.begun()) return;
    auto* numbers = reinterpret_cast<double*>(to);
    numbers[0] = s.steps;
    numbers[1] = s.target[0], numbers[2] = s.target[1];
    if (p.several()) numbers[3] = s.task;
    s.simulation.save(numbers + own_numbers(p));
  }
  static bool load(const Params& p, State& s, const std::byte* from) {
    const auto* numbers = reinterpret_cast<const double*>(from);
    const double task = p.several() ? numbers[3] : double(p.task);
    if (!(numbers[0] >= 0 && numbers[0] <= p.max_steps)) return false;
    if (!(task >= 0 && task < double(kNames.size()))) return false;
    s.steps = int32_t(numbers[0]), s.task = int32_t(task);
    s.target = {numbers[1], numbers[2]};
    const mujoco::Model& model = model_of(s);
    if (!(std::hypot(s.target[0], s.target[1]) < 1) ||
        !s.simulation.load(model, numbers + own_numbers(p)))
      return false;
    place(model, s);
    return true;
  }

 private:
  static const mujoco::Model& model_of(const State& s) { return Domain::model(Task(s.task)); }
  static size_t own_numbers(const Params& p) { return p.several() ? 4 : 3; }
  static void place(const mujoco::Model& model, State& s) {
    if constexpr (requires { Domain::place(model, s); }) Domain::place(model, s);
  }
};

}  // namespace maglev::dmc
