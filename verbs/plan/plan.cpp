// maglev plan: what a run will hold and how long it will take, part by part, before it runs; on
// devices that are not here too.

#include <algorithm>
#include <cmath>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/printed.h"
#include "base/core/terminal.h"
#include "base/core/words.h"
#include "engine/host/system.h"
#include "engine/train/few_rows.h"
#include "engine/train/memory_plan.h"
#include "engine/train/processes.h"
#include "engine/train/time_plan.h"
#include "verbs/arguments.h"
#include "verbs/notes.h"
#include "verbs/plan/devices.h"
#include "verbs/plan/rates.h"
#include "verbs/plan/sizes.h"
#include "verbs/settings.h"
#include "verbs/table.h"
#include "verbs/verb.h"

namespace maglev::verbs::plan {

VerbEntry entry();

namespace {

constexpr int kDoesNotFit = 1;

std::string device_names() {
  std::vector<std::string> names;
  for (const NamedDevice& device : named_devices()) names.push_back(device.name);
  return "auto, cpu, cuda, cuda:<index>, or a GPU that need not be here: " + joined(names);
}

// null: none of that name
const NamedDevice* named_device(const std::string& name) {
  for (const NamedDevice& device : named_devices())
    if (name == device.name) return &device;
  return nullptr;
}

// where the run is planned for; a named device is told as a CUDA device of its memory
Placement placement_of(const std::string& name, const RunOptions& run) {
  if (const NamedDevice* device = named_device(name)) {
    Placement placement = place("cpu", run.threads);
    placement.device = at::Device(at::kCUDA, 0);
    placement.device_bytes = device->bytes;
    placement.precision = run.precision.value_or(Precision::fp32);
    placement.device_why = "planned for, whether it is here or not";
    return placement;
  }
  try {
    return place(name, run.threads, run.precision);
  } catch (const Error& why) {
    throw Error(std::string(why.what()) + "; plan also knows " + device_names());
  }
}

struct Planned {
  std::string algo, env, device;
  MemoryPlan memory;
  std::vector<Size> sizes;
  TimePlan time;
  double run_s = 0;       // of the run's steps
  std::string rates;      // where they come from; empty: time is not planned
  bool measured = false;  // they
};

// "12.3 s", "2.1 hours"
std::string duration(double seconds) {
  if (seconds < 120) return printed("%.3g s", seconds);
  if (seconds < 7200) return printed("%.3g minutes", seconds / 60);
  return printed("%.3g hours", seconds / 3600);
}

std::string time_text(const Planned& planned, const Terminal& terminal) {
  const TimePlan& time = planned.time;
  std::string text = "\n" + printed("%.3g", time.steps_per_second()) + " steps/s, " +
                     duration(planned.run_s) + " for the run; an iteration of " +
                     by_thousands(time.steps) + " steps (" + planned.rates + ")\n\n";
  Table stages({"stage", ">time", ">share", ">GFLOP", ">MB", ">launches", "limited by"});
  for (const PlannedStage& stage : time.stages)
    stages.add({stage.name, printed("%.3g ms", 1e3 * stage.seconds),
                printed("%.1f %%", 100 * stage.seconds / time.iteration_s),
                printed("%.3g", stage.flops * 1e-9), printed("%.3g", stage.bytes * 1e-6),
                by_thousands(int64_t(std::llround(stage.launches))),
                std::string(name_of(stage.limit)) + (stage.tried ? ", tried" : "") +
                    (stage.host ? ", on this host" : "")});
  return text + stages.text(terminal);
}

std::string text_of(const Planned& planned, const Terminal& terminal) {
  const MemoryPlan& memory = planned.memory;
  std::string text = planned.algo + " on " + planned.env + ", " + planned.device + ": " +
                     bytes_text(memory.total()) +
                     (memory.total() <= memory.limit ? " of " : ", more than ") +
                     bytes_text(memory.limit) + " (" + memory.limit_why + ")\n\n";
  Table parts({"part", ">size", ">share"});
  const double total = double(std::max<int64_t>(1, memory.total()));
  for (const MemoryPart& part : memory.parts)
    parts.add(
        {part.name, bytes_text(part.bytes), printed("%.1f %%", 100 * double(part.bytes) / total)});
  text += parts.text(terminal);
  if (memory.pinned > 0)
    text += "besides: of what is collected " + bytes_text(memory.pinned) +
            " in pinned memory of the host" +
            (memory.host_left == 0 ? ""
             : memory.pinned <= memory.host_left
                 ? ", of " + bytes_text(memory.host_left) + " left there"
                 : ", more than the " + bytes_text(memory.host_left) + " left there") +
            "\n";
  if (!find_algo(planned.algo).memory)
    text += "besides: what " + planned.algo +
            " itself holds, of which its entry says nothing (.memory)\n";
  if (memory.disk > 0)
    text += "besides: observations of the replay " + bytes_text(memory.disk) + " on a disk\n";
  if (!planned.time.stages.empty()) text += time_text(planned, terminal);
  if (planned.sizes.empty()) return text;

  text += planned.memory.parts_fit() ? "\nhow far each setting can be doubled, all else as it is\n"
                                     : "\nwhat each setting would have to be, all else as it is\n";
  Table sizes({"setting", ">now", ">fits", ">then"});
  for (const Size& size : planned.sizes)
    sizes.add({size.setting, by_thousands(size.now),
               size.fits ? by_thousands(size.fits) : "none does",
               size.fits ? bytes_text(size.bytes) : "-"});
  return text + sizes.text(terminal);
}

std::string json_of(const Planned& planned) {
  const MemoryPlan& memory = planned.memory;
  nlohmann::ordered_json json{{"algorithm", planned.algo},
                              {"environment", planned.env},
                              {"device", planned.device},
                              {"total", memory.total()},
                              {"limit", memory.limit},
                              {"limit_why", memory.limit_why},
                              {"fits", planned.memory.fits()},
                              {"pinned", memory.pinned},
                              {"host_left", memory.host_left},
                              {"disk", memory.disk},
                              {"parts", nlohmann::json::object()},
                              {"sizes", nlohmann::json::array()}};
  for (const MemoryPart& part : memory.parts) json["parts"][part.name] = part.bytes;
  for (const Size& size : planned.sizes)
    json["sizes"].push_back(
        {{"setting", size.setting}, {"now", size.now}, {"fits", size.fits}, {"bytes", size.bytes}});
  if (planned.time.stages.empty()) return json.dump(2) + "\n";
  auto& time = json["time"];
  time = {{"steps_per_second", planned.time.steps_per_second()},
          {"run_s", planned.run_s},
          {"iteration_s", planned.time.iteration_s},
          {"iteration_steps", planned.time.steps},
          {"rates", planned.rates},
          {"measured", planned.measured},
          {"stages", nlohmann::json::array()}};
  for (const PlannedStage& stage : planned.time.stages)
    time["stages"].push_back({{"name", stage.name},
                              {"seconds", stage.seconds},
                              {"flops", stage.flops},
                              {"bytes", stage.bytes},
                              {"launches", stage.launches},
                              {"limit", name_of(stage.limit)},
                              {"tried", stage.tried},
                              {"host", stage.host}});
  return json.dump(2) + "\n";
}

int run(const std::vector<std::string>& words) {
  const std::string devices = device_names() + " (default: the setting device)";
  const Arguments arguments(
      entry(), words,
      {.flags = {{"--memory", "SIZE", "the limit, e.g. 8G (default: what is free there)"},
                 {"--device", "NAME", devices.c_str()},
                 {"--config", "FILE",
                  "settings from YAML or JSON, before those on the command line"},
                 {"--bare", "", "do not load the proven settings"},
                 {"--no-time", "", "memory alone: nothing is measured"},
                 {"--json", "", "as JSON"}},
       .least = 2,
       .most = 2,
       .names = "<algorithm> <environment>",
       .settings = true});
  if (arguments.help()) return arguments.print_help();
  claim_threads();
  const auto [algo, env] = algo_on_env(arguments.positional());
  Experiment experiment(algo, env);
  print_notes(load_settings(experiment, arguments, arguments.settings()).notes);
  print_notes(experiment.settle());
  if (auto limit = arguments.value("--memory"))
    experiment.table().override_with("train.memory_limit=" + *limit);

  const std::string device = arguments.value("--device").value_or(experiment.run.device);
  const Placement placement = share_of(experiment, placement_of(device, experiment.run));
  if (const std::string few = few_rows_note(experiment, placement); !few.empty())
    print_notes({few});
  Planned planned{.algo = algo,
                  .env = env,
                  .device = placement.device_bytes ? device : placement.device.str(),
                  .memory = plan_memory(experiment, placement)};
  if (planned.memory.limit == 0)
    throw Error("[plan] there is no limit to hold the plan to; give one with --memory, e.g. 8G");
  planned.sizes = sizes_of(experiment, placement, planned.memory);
  if (!arguments.has("--no-time")) {
    KnownRates known = rates_for(experiment, placement, named_device(device));
    // networks are made for it, here
    known.rates.trials &=
        planned.memory.fits() && planned.memory.total() <= probe_system(".").memory.left();
    planned.time = plan_time(experiment, placement, known.rates);
    planned.rates = known.source, planned.measured = known.measured;
    if (!planned.time.stages.empty()) planned.run_s = planned.time.run_s(experiment.run);
  }
  print(arguments.has("--json") ? json_of(planned)
                                : text_of(planned, probe_terminal(STDOUT_FILENO)));
  return planned.memory.fits() ? 0 : kDoesNotFit;
}

}  // namespace

VerbEntry entry() {
  return {.name = "plan",
          .summary = "what a run will hold in memory and how long it will take, before it runs",
          .usage =
              "plan <algorithm> <environment> [setting=value ...] [--memory 8G] [--device h200] "
              "[--no-time]",
          .run = run};
}

}  // namespace maglev::verbs::plan
