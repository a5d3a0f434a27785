// The module maglev._engine: the engine's parts as Python objects, without anything that Python can
// do itself (python/maglev does that). Work runs without the interpreter's lock.

#include <algorithm>
#include <chrono>

#include <c10/core/DeviceGuard.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include "base/config/choice.h"
#include "base/core/error.h"
#include "base/core/version.h"
#include "base/env/entry.h"
#include "base/env/env_params.h"
#include "base/simd/targets.h"
#include "engine/algo/entries.h"
#include "engine/run/run_dir.h"
#include "engine/run/run_name.h"
#include "engine/trace/nvtx.h"
#include "engine/train/signals.h"
#include "engine/train/trainer.h"
#include "kernels/gae/gae_op.h"
#include "python/bindings/actor.h"
#include "python/bindings/envs.h"
#include "python/bindings/jobs.h"
#include "python/bindings/monitoring.h"
#include "python/bindings/replay_memory.h"
#include "python/bindings/tracing.h"
#include "verbs/notes.h"

namespace py = pybind11;

namespace maglev::python {
namespace {

using Unlocked = py::call_guard<py::gil_scoped_release>;
using Tensors = std::vector<at::Tensor>;
using MaybeTensor = std::optional<at::Tensor>;

MaybeTensor maybe(const at::Tensor& t) { return t.defined() ? MaybeTensor(t) : std::nullopt; }
at::Tensor tensor_of(const MaybeTensor& t) { return t ? *t : at::Tensor(); }

const char* dtype_text(DType dtype) {
  return dtype == DType::u8 ? "uint8" : dtype == DType::i32 ? "int32" : "float32";
}

/// `called`: by which call, for the message.
Placement placed(const std::string& device, int64_t threads, const char* called) {
  constexpr int64_t kMostThreads = 4096;
  if (threads < 0 || threads > kMostThreads)
    throw Error("[" + std::string(called) + "] threads must be in 0.." +
                std::to_string(kMostThreads) + ", got " + std::to_string(threads));
  return place(device, threads);
}

/// What a long work asks between its steps: throws what a signal's handler in Python did.
bool interrupted() {
  using Clock = std::chrono::steady_clock;
  thread_local Clock::time_point asked = Clock::now();
  if (Clock::now() - asked < std::chrono::milliseconds(50)) return false;
  asked = Clock::now();
  const py::gil_scoped_acquire locked;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  return false;
}

ActMode mode_of(const std::string& name) {
  constexpr auto names = names_of(ActMode{});
  for (size_t i = 0; i < names.size(); ++i)
    if (name == names[i]) return ActMode(i);
  throw Error("[act] mode must be sample or mean, got '" + name + "'");
}

py::dict spec_dict(const EnvSpec& spec) {
  py::list columns;
  for (const ObsColumn& o : spec.observations) {
    py::dict column;
    column["name"] = o.name;
    column["dtype"] = dtype_text(o.dtype);
    column["shape"] = py::tuple(py::cast(o.shape));
    column["privileged"] = o.audience == Audience::critic;
    column["cells"] = o.cells.bits > 0;
    column["vocabulary"] = o.vocabulary;
    columns.append(column);
  }
  py::list tasks;
  for (const TaskSpec& task : spec.tasks) tasks.append(task.name);
  py::dict d;
  d["observations"] = columns;
  d["heads"] = spec.action.heads;
  d["action_names"] = spec.action.names;
  d["low"] = spec.action.low;
  d["high"] = spec.action.high;
  d["masked"] = spec.action.masked;
  d["max_steps"] = spec.max_steps;
  d["events"] = spec.events;
  d["tasks"] = tasks;
  d["solved_at"] = spec.solved_at;
  d["render_fps"] = spec.render_fps;
  return d;
}

py::dict totals_dict(const EpisodeTotals& t, const EnvSpec& spec) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), n = double(t.episodes);
  py::dict events, shares;
  for (size_t k = 0; k < spec.events.size(); ++k) events[spec.events[k].c_str()] = t.events[k];
  for (const EventShare& share : spec.shares)
    shares[share.name.c_str()] = share_of(share, t.events);
  py::dict d;
  d["steps"] = t.steps;
  d["episodes"] = t.episodes;
  d["return_mean"] = t.episodes ? t.return_sum / n : nan;
  d["return_min"] = t.episodes ? double(t.return_min) : nan;
  d["return_max"] = t.episodes ? double(t.return_max) : nan;
  d["length_mean"] = t.episodes ? t.length_sum / n : nan;
  d["events"] = events;
  d["shares"] = shares;
  return d;
}

py::dict eval_dict(const EvalResult& r) {
  py::dict events, per_1k, shares;
  for (const auto& [name, value] : r.events) events[name.c_str()] = value;
  for (const auto& [name, value] : r.events_per_1k) per_1k[name.c_str()] = value;
  for (const auto& [name, value] : r.shares) shares[name.c_str()] = value;
  py::dict d;
  d["seed"] = r.seed;
  d["envs"] = r.envs;
  d["episodes"] = r.episodes;
  d["episodes_cut"] = r.cut;
  d["episodes_given_up"] = r.given_up;
  d["steps"] = r.steps;
  d["return_mean"] = r.return_mean;
  d["return_std"] = r.return_std;
  d["return_min"] = r.return_min;
  d["return_max"] = r.return_max;
  d["length_mean"] = r.length_mean;
  d["events"] = events;
  d["events_per_1k"] = per_1k;
  d["shares"] = shares;
  d["wins"] = r.wins;
  d["draws"] = r.draws;
  d["losses"] = r.losses;
  d["returns"] = r.returns;
  d["seconds"] = r.seconds;
  return d;
}

py::dict row_dict(const MetricRow& row) {
  py::dict d;
  d["step"] = row.step;
  d["seconds"] = row.seconds;
  if (!row.event) {
    d["steps_per_second"] = row.steps_per_second;
    d["episodes"] = row.episodes;
    d["return_mean"] = row.return_mean;
  }
  for (const auto& [name, value] : row.values) d[name.c_str()] = value;
  return d;
}

py::list episode_list(std::span<const FinishedEpisode> episodes) {
  py::list all;
  for (const FinishedEpisode& e : episodes) {
    py::dict d;
    d["environment"] = e.environment;
    d["step"] = e.step;
    d["return"] = e.episode_return;
    d["length"] = e.length;
    d["terminated"] = e.terminated;
    all.append(d);
  }
  return all;
}

py::dict figures_dict(const Figures& figures) {
  py::dict d;
  for (const auto& [name, value] : figures) d[name.c_str()] = value;
  return d;
}

/// What a run tells, as calls of Python functions by the names of Hooks, which outlive the hooks. One
/// that returns False, Python's, NumPy's or a tensor's, ends the run.
struct Listeners {
  py::dict by_name;
  std::string folder;

  static void heard(const py::object& answer) {
    const auto type = py::type::of(answer).attr("__name__").cast<std::string>();
    const bool truth =
        type == "bool" || type == "bool_" ||
        (type == "Tensor" && std::string(py::str(answer.attr("dtype"))) == "torch.bool");
    if (truth && !py::bool_(answer)) SignalGuard::ask_to_leave();
  }
  /// A hook that calls `name`, where somebody listens, with what `words` makes of its arguments.
  template <class... Told, class Words>
  void listen(std::function<void(Told...)>& hook, const char* name, Words words) {
    if (!by_name.contains(name)) return;
    hook = [words, function = by_name[name].ptr()](Told... told) {
      const py::gil_scoped_acquire locked;
      heard(py::reinterpret_borrow<py::function>(function)(*words(told...)));
    };
  }
  py::dict standing(const Trainer& trainer) const {
    py::dict d;
    d["folder"] = folder;
    d["step"] = trainer.step();
    d["updates"] = trainer.updates();
    d["steps"] = trainer.experiment().run.steps;
    return d;
  }

  Hooks hooks() {
    Hooks hooks;
    hooks.folder = [this](const std::string& path) { folder = path; };
    const auto run = [this](const Trainer& t) { return py::make_tuple(standing(t)); };
    listen(hooks.training_start, "start", run);
    listen(hooks.iteration_start, "iteration", [](int64_t step) { return py::make_tuple(step); });
    listen(hooks.episodes, "episodes", [](std::span<const FinishedEpisode> some) {
      return py::make_tuple(episode_list(some));
    });
    listen(hooks.epoch, "epoch", [](int64_t epoch, const Figures& figures) {
      return py::make_tuple(epoch, figures_dict(figures));
    });
    listen(hooks.row, "row", [](const MetricRow& one) { return py::make_tuple(row_dict(one)); });
    listen(hooks.training_end, "end", run);
    return hooks;
  }
};

// what a user does to a tensor's shape or gradient is not done to ours
at::Tensor given_out(const at::Tensor& column, bool copy) {
  return copy ? column.clone() : column.detach();
}

/// (stored columns, mask or None, is_first) of what environments show.
std::tuple<Tensors, MaybeTensor, at::Tensor> shown_of(const Envs& envs, bool copy) {
  const TimeStep& step = envs.shown();
  Tensors obs;
  for (const at::Tensor& column : step.obs) obs.push_back(given_out(column, copy));
  MaybeTensor mask;
  if (step.mask.defined()) mask = given_out(step.mask, copy).view(at::kBool);
  return {std::move(obs), std::move(mask), given_out(step.is_first, copy).view(at::kBool)};
}

// stopped: as a listener wanted
const char* outcome_text(RunOutcome outcome) {
  return outcome == RunOutcome::finished   ? "finished"
         : outcome == RunOutcome::diverged ? "diverged"
         : SignalGuard::signalled()        ? "interrupted"
                                           : "stopped";
}

/// (outcome, folder) of what `work` trains.
template <class Work>
std::pair<std::string, std::string> trained(py::dict listening, const Work& work) {
  Listeners listeners{.by_name = std::move(listening), .folder = {}};
  Hooks hooks = listeners.hooks();
  RunOutcome outcome;
  {
    const py::gil_scoped_release unlocked;
    outcome = work(std::move(hooks));
  }
  return {outcome_text(outcome), listeners.folder};
}

/// Acts by a function (columns, mask, is_first, first row) -> actions, called by one thread at a time,
/// which outlives it.
FunctionPlayer::Act acting_by(const py::function& function) {
  return [&function](const EnvSpec& spec, TimeStep& step) {
    const py::gil_scoped_acquire locked;
    const at::NoGradGuard no_grad;
    Tensors seen;
    for (const at::Tensor& column : step.obs) seen.push_back(column.detach());
    const py::object given = function(seen, maybe(step.mask), step.is_first, step.first);
    take_actions(spec.action, given.cast<at::Tensor>(), step.mask, step.action);
  };
}

void bind_envs(py::module_& m) {
  py::class_<EnvsState>(m, "State");
  // the interpreter's lock is back before an object is registered
  py::class_<Envs>(m, "Envs")
      .def(py::init([](const std::string& name, int64_t count, std::vector<std::string> settings,
                       uint64_t seed, const std::string& device, int64_t threads, bool events) {
        const py::gil_scoped_release unlocked;
        return std::make_unique<Envs>(EnvsRequest{.name = name,
                                                  .count = count,
                                                  .settings = std::move(settings),
                                                  .seed = seed,
                                                  .placement = placed(device, threads, "make"),
                                                  .events = events});
      }))
      .def_property_readonly("count", &Envs::count)
      .def_property_readonly("rows", &Envs::rows)
      .def_property_readonly("agents", [](const Envs& e) { return e.spec().agents; })
      .def_property_readonly("device", [](const Envs& e) { return e.device().str(); })
      .def_property_readonly("spec", [](const Envs& e) { return spec_dict(e.spec()); })
      .def_property_readonly("players", [](const Envs& e) { return scripted_players(e.entry()); })
      .def("reset", py::overload_cast<>(&Envs::reset), Unlocked())
      .def("reset", py::overload_cast<uint64_t>(&Envs::reset), Unlocked())
      .def("shown", [](const Envs& e, bool copy) { return shown_of(e, copy); })
      .def("step",
           [](Envs& e, const at::Tensor& action, bool copy) {
             const py::gil_scoped_release unlocked;
             e.step(action);
             return std::make_tuple(shown_of(e, copy), given_out(e.reward(), copy),
                                    given_out(e.terminated(), copy).view(at::kBool),
                                    given_out(e.truncated(), copy).view(at::kBool));
           })
      .def("events", [](const Envs& e) { return maybe(e.events()); })
      .def("encode",
           [](const Envs& e, const Tensors& columns) {
             EncodedObs out;
             {
               const py::gil_scoped_release unlocked;
               const at::NoGradGuard no_grad;
               out = e.encode(columns);
             }
             return std::make_tuple(maybe(out.policy.image), maybe(out.policy.vector),
                                    maybe(out.privileged));
           })
      .def("totals",
           [](Envs& e) {
             EpisodeTotals totals;
             {
               const py::gil_scoped_release unlocked;
               totals = e.take_totals();
             }
             return totals_dict(totals, e.spec());
           })
      .def("picture", &Envs::picture, Unlocked())
      .def("close", &Envs::close, Unlocked())
      .def("keep", &Envs::keep, Unlocked())
      .def("restore", &Envs::restore, Unlocked());
}

void bind_actors(py::module_& m) {
  py::class_<Actor>(m, "Actor")
      .def(py::init([](const std::string& run, const std::string& checkpoint,
                       const std::vector<std::string>& settings, const std::string& device,
                       const std::string& mode, float temperature, uint64_t seed) {
        const py::gil_scoped_release unlocked;
        return std::make_unique<Actor>(run, checkpoint, settings, device, mode_of(mode),
                                       temperature, seed);
      }))
      .def(
          py::init([](Envs& envs, const std::string& name, const std::vector<std::string>& settings,
                      const std::string& mode, float temperature, uint64_t seed) {
            const py::gil_scoped_release unlocked;
            return std::make_unique<Actor>(envs, name, settings, mode_of(mode), temperature, seed);
          }),
          py::keep_alive<1, 2>())
      .def_property_readonly("name", [](Actor& a) { return a.player().name(); })
      .def_property_readonly("environment", [](const Actor& a) { return a.game().env.name; })
      .def_property_readonly("checkpoint", &Actor::checkpoint)
      .def_property_readonly("device", [](const Actor& a) { return a.device().str(); })
      .def_property_readonly("spec", [](const Actor& a) { return spec_dict(a.spec()); })
      .def("act",
           [](Actor& a, const Tensors& obs, const MaybeTensor& mask, const MaybeTensor& is_first) {
             const py::gil_scoped_release unlocked;
             return a.act(obs, tensor_of(mask), tensor_of(is_first));
           })
      .def("log_probs",
           [](Actor& a, const Tensors& obs, const MaybeTensor& mask) {
             const py::gil_scoped_release unlocked;
             return maybe(a.log_probs(obs, tensor_of(mask)));
           })
      .def("normals",
           [](Actor& a, const Tensors& obs,
              const MaybeTensor& mask) -> std::optional<std::pair<at::Tensor, at::Tensor>> {
             const py::gil_scoped_release unlocked;
             const auto found = a.normals(obs, tensor_of(mask));
             if (!found) return std::nullopt;
             return std::pair(found->mean, found->log_std);
           })
      .def("value",
           [](Actor& a, const Tensors& obs, const MaybeTensor& mask) {
             const py::gil_scoped_release unlocked;
             return maybe(a.value(obs, tensor_of(mask)));
           })
      .def("reset", &Actor::reset);
}

/// A column as Python names it: name, shape of a row, dtype.
using NamedColumn = std::tuple<std::string, std::vector<int64_t>, at::ScalarType>;

DType stored_dtype(const std::string& name, at::ScalarType dtype) {
  for (const auto& [torchs, ours] :
       {std::pair(at::kByte, DType::u8), {at::kInt, DType::i32}, {at::kFloat, DType::f32}})
    if (dtype == torchs) return ours;
  throw Error("[replay] observations are stored as uint8, int32 or float32, got " +
              std::string(at::toString(dtype)) + " of '" + name + "'");
}

/// What `words` of Replay.__init__ ask for.
ReplayRequest replay_request(const py::dict& words) {
  const auto number = [&](const char* name) { return words[name].cast<int64_t>(); };
  const auto flag = [&](const char* name) { return words[name].cast<bool>(); };
  ReplayRequest request{
      .shape = {.capacity = number("capacity"),
                .length = number("length"),
                .batch = number("batch"),
                .by_start = flag("by_start"),
                .running = flag("running"),
                .crossing = flag("crossing")},
      .rows = number("rows"),
      .seed = words["seed"].cast<uint64_t>(),
      .placement = placed(words["device"].cast<std::string>(), number("threads"), "replay"),
      .memory = {.pinned = flag("pinned"), .folder = words["folder"].cast<std::string>()}};
  for (const auto& [name, shape, dtype] : words["observations"].cast<std::vector<NamedColumn>>())
    request.spec.observations.push_back(
        {.name = name, .dtype = stored_dtype(name, dtype), .shape = shape});
  for (const auto& [name, shape, dtype] : words["extra"].cast<std::vector<NamedColumn>>())
    request.columns.push_back({.name = name, .dtype = dtype, .shape = shape, .rewritten = true});
  request.shape.priorities = words["priorities"].cast<std::optional<double>>();
  ActionSpec& action = request.spec.action;
  action.heads = words["heads"].cast<std::vector<int64_t>>();
  action.low = words["low"].cast<std::vector<float>>();
  action.high = words["high"].cast<std::vector<float>>();
  action.masked = flag("masked");
  return request;
}

void bind_replay(py::module_& m) {
  py::class_<ReplayBuffer>(m, "ReplayBuffer").def("columns", [](const ReplayBuffer& buffer) {
    const auto flags = [](const at::Tensor& column) { return column.detach().view(at::kBool); };
    const Batch& b = buffer.batch;
    Tensors obs, extra;
    for (const at::Tensor& column : b.obs) obs.push_back(column.detach());
    for (const at::Tensor& column : b.extra) extra.push_back(column.detach());
    MaybeTensor mask, chance;
    if (b.mask.defined()) mask = flags(b.mask);
    if (b.chance.defined()) chance = b.chance.detach();
    return std::make_tuple(obs, mask, flags(b.is_first), b.action.detach(), b.reward.detach(),
                           flags(b.terminated), flags(b.truncated), extra, buffer.slices.detach(),
                           chance);
  });
  py::class_<ReplayMemory>(m, "Replay")
      .def(py::init([](const py::dict& words) {
        const ReplayRequest request = replay_request(words);
        const py::gil_scoped_release unlocked;
        return std::make_unique<ReplayMemory>(request);
      }))
      .def_property_readonly("device", [](const ReplayMemory& r) { return r.device().str(); })
      .def("held", &ReplayMemory::held, Unlocked())
      .def("episodes", &ReplayMemory::episodes, Unlocked())
      .def("faults", &ReplayMemory::faults, Unlocked())
      .def("drawable", &ReplayMemory::drawable, Unlocked())
      .def("add",
           [](ReplayMemory& r, const Tensors& obs, const MaybeTensor& mask,
              const at::Tensor& is_first, const at::Tensor& action, const at::Tensor& reward,
              const at::Tensor& terminated, const at::Tensor& truncated,
              std::map<std::string, at::Tensor> columns) {
             const py::gil_scoped_release unlocked;
             r.add({.obs = obs,
                    .mask = tensor_of(mask),
                    .is_first = is_first,
                    .action = action,
                    .reward = reward,
                    .terminated = terminated,
                    .truncated = truncated,
                    .columns = std::move(columns)});
           })
      .def("buffer", &ReplayMemory::make_buffer, Unlocked())
      .def("sample", &ReplayMemory::sample, Unlocked())
      .def("update", &ReplayMemory::update, Unlocked())
      .def("prioritise", &ReplayMemory::prioritise, Unlocked())
      .def("save", &ReplayMemory::save, Unlocked())
      .def("load", &ReplayMemory::load, Unlocked())
      .def_static("about", &ReplayMemory::about);
}

/// What would be trained with a network from Python, which PPO alone takes.
TrainRequest ppo_request(const std::string& environment, std::vector<std::string> settings,
                         std::optional<std::string> config, bool bare) {
  return {.algorithm = "ppo",
          .environment = environment,
          .settings = std::move(settings),
          .config = std::move(config),
          .bare = bare};
}

void bind_jobs(py::module_& m) {
  m.def("train", [](const std::string& algorithm, const std::string& environment,
                    std::vector<std::string> settings, std::optional<std::string> config, bool bare,
                    const std::string& out, bool overwrite, std::vector<std::string> sinks,
                    py::dict listening) {
    return trained(std::move(listening), [&](Hooks hooks) {
      return train({.algorithm = algorithm,
                    .environment = environment,
                    .settings = std::move(settings),
                    .config = std::move(config),
                    .bare = bare,
                    .out = out,
                    .overwrite = overwrite,
                    .sinks = std::move(sinks),
                    .hooks = std::move(hooks)});
    });
  });
  m.def("network_shape", [](const std::string& environment, std::vector<std::string> settings,
                            std::optional<std::string> config, bool bare) {
    const NetworkShape shape = [&] {
      const py::gil_scoped_release free;
      return network_shape(ppo_request(environment, std::move(settings), std::move(config), bare));
    }();
    py::dict d;
    d["image"] = shape.image;
    d["vector"] = shape.vector;
    d["privileged"] = shape.privileged;
    d["outputs"] = shape.outputs;
    d["memory"] = shape.memory;
    d["discrete"] = shape.discrete;
    return d;
  });
  m.def(
      "check_network",
      [](const std::string& environment, std::vector<std::string> settings,
         std::optional<std::string> config, bool bare) {
        check_network(ppo_request(environment, std::move(settings), std::move(config), bare));
      },
      Unlocked());
  m.def("verified_checkpoint", &verified_checkpoint, Unlocked());
  m.def("resume", [](const std::string& folder, const std::vector<std::string>& settings,
                     const std::vector<std::string>& sinks, py::dict listening) {
    return trained(std::move(listening),
                   [&](const Hooks& hooks) { return resume(folder, settings, sinks, hooks); });
  });
  m.def("evaluate",
        [](const py::object& player, const std::string& environment,
           std::vector<std::string> settings, const std::string& mode, float temperature,
           const std::string& against, const std::string& against_mode, float against_temperature,
           std::vector<std::string> against_settings, int64_t episodes, int64_t steps, int64_t envs,
           uint64_t seed) {
          EvaluateRequest request{
              .player = py::isinstance<py::str>(player) ? player.cast<std::string>() : "",
              .environment = environment,
              .settings = std::move(settings),
              .mode = mode_of(mode),
              .temperature = temperature,
              .against = against,
              .against_mode = mode_of(against_mode),
              .against_temperature = against_temperature,
              .against_settings = std::move(against_settings),
              .options = {.episodes = episodes, .steps = steps, .envs = envs, .seed = seed}};
          request.options.stop = [](int64_t) { return interrupted(); };
          std::optional<py::function> function;
          if (!py::isinstance<py::str>(player)) function = player.cast<py::function>();
          EvalResult result;
          {
            const py::gil_scoped_release unlocked;
            result = evaluate(request, function ? acting_by(*function) : nullptr);
          }
          return eval_dict(result);
        });
  m.def("notes", [](const std::string& player, const std::string& environment,
                    std::vector<std::string> settings) {
    if (environment.empty()) return run_notes(player, settings);
    // an environment is made for no more than a run's sake
    if (!run_named(player)) return std::vector<std::string>{};
    // what is of the environment is not the run's
    const auto others = std::ranges::stable_partition(
        settings, [](const std::string& setting) { return setting.starts_with("env."); });
    const std::vector<std::string> of_run(others.begin(), others.end());
    settings.erase(others.begin(), others.end());
    const EnvParams params(find_env(environment), settings);
    return guest_notes(player, of_run, params.table());
  });
  m.def("no_run", [](const std::string& folder) { return std::string(no_run(folder).what()); });
  m.def("settings", [](const std::string& algorithm, const std::string& environment, bool bare) {
    py::dict all;
    for (const Setting& s : settings_of(algorithm, environment, bare))
      all[s.name.c_str()] = py::make_tuple(s.value, s.help);
    return all;
  });
  m.def(
      "gae",
      [](const at::Tensor& reward, const at::Tensor& value, const at::Tensor& terminated,
         const at::Tensor& is_first, double gamma, double lambda) {
        const at::NoGradGuard no_grad;
        at::Tensor advantage = at::empty_like(reward);
        const GaeExtras extras{.returns = at::empty_like(reward), .valid = at::empty_like(reward)};
        const c10::OptionalDeviceGuard guard(reward.device());
        gae_(advantage, reward, value, terminated, is_first, gamma, lambda, extras);
        return std::make_tuple(advantage, extras.returns, extras.valid);
      },
      Unlocked());
  m.def("spec", [](const std::string& environment, const std::vector<std::string>& settings) {
    const EnvEntry& env = find_env(environment);
    const EnvParams params(env, settings, "settings");
    return spec_dict(env.spec(params.get()));
  });
  m.def("environments", [] {
    py::dict all;
    for (const EnvEntry& e : env_table()) all[e.name] = e.summary;
    return all;
  });
  m.def("algorithms", [] {
    py::dict all;
    for (const AlgoEntry& a : algo_table()) all[a.name] = a.summary;
    return all;
  });
}

void bind_monitoring(py::module_& m) {
  py::class_<LoopMonitor>(m, "Monitor")
      .def(py::init([](double every_s, int64_t planned, const std::string& device) {
        std::string why;
        return std::make_unique<LoopMonitor>(every_s, planned,
                                             choose_device(device, seen_devices(), why));
      }))
      .def("sample", [](LoopMonitor& monitor, int64_t step) {
        LoopMonitor::Sample sample;
        {
          const py::gil_scoped_release unlocked;
          sample = monitor.sample(step);
        }
        return std::make_tuple(sample.seconds, std::move(sample.figures),
                               std::move(sample.warning));
      });
}

void bind_tracing(py::module_& m) {
  py::class_<Span>(m, "Span")
      .def(py::init<const std::string&, int64_t>())
      .def("enter", &Span::enter)
      .def("exit", &Span::exit);
  py::class_<Trace>(m, "Trace")
      .def(py::init<const std::string&, const std::string&, bool>())
      .def("begin", &Trace::begin)
      .def("end", &Trace::end, Unlocked());
}

}  // namespace
}  // namespace maglev::python

PYBIND11_MODULE(_engine, m) {
  maglev::limit_simd();
  maglev::tell_nvtx();
  py::register_local_exception<maglev::Error>(m, "Error", PyExc_RuntimeError);
  m.attr("version") = maglev::kEngineVersion;
  m.attr("commit") = maglev::kEngineCommit;
  m.attr("torch_version") = TORCH_VERSION;
  maglev::python::bind_envs(m);
  maglev::python::bind_actors(m);
  maglev::python::bind_replay(m);
  maglev::python::bind_jobs(m);
  maglev::python::bind_monitoring(m);
  maglev::python::bind_tracing(m);
}
