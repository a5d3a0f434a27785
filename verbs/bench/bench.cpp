// maglev bench: how long works of the engine take, suite by suite, and whether they took less
// before. maglev bench timeline: what each optimisation of the engine is worth, by switching one
// after another on and training a few seconds with each. maglev bench run: how fast one run is, and
// was, or is with other settings. maglev bench replay: writes to a replay and draws from it, beside
// storages in Python. maglev bench --signature: what it computes.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/home.h"
#include "base/core/printed.h"
#include "base/core/split.h"
#include "base/core/words.h"
#include "engine/algo/experiment.h"
#include "engine/host/bystanders.h"
#include "engine/host/machine.h"
#include "engine/host/system.h"
#include "engine/train/signals.h"
#include "verbs/arguments.h"
#include "verbs/bench/one_run.h"
#include "verbs/bench/outputs.h"
#include "verbs/bench/replay_speed.h"
#include "verbs/bench/run_child.h"
#include "verbs/bench/signature.h"
#include "verbs/bench/stages.h"
#include "verbs/bench/suites.h"
#include "verbs/notes.h"
#include "verbs/settings.h"
#include "verbs/table.h"
#include "verbs/train/seeds.h"
#include "verbs/verb.h"

namespace maglev::verbs::bench {

VerbEntry entry();

namespace {

constexpr int64_t kDefaultSeconds = 5;
constexpr int64_t kTimelineRounds = 3;
constexpr int64_t kDefaultMilliseconds = 500;  // of each case of replay
constexpr int64_t kSignedUpdates = 100;
// more than any measurement takes
constexpr const char* kEndless = "1000000000000";

struct Measured {
  Stage stage;
  std::vector<std::string> settings;
  std::string skipped;  // why, or ""
  std::vector<Speed> rounds;
};

// of the rounds, in steps a second
double median_speed(const Measured& row) {
  std::vector<double> speeds;
  for (const Speed& one : row.rounds) speeds.push_back(one.steps_per_second);
  return median_of(speeds);
}

std::string times(double figure, double of) { return of > 0 ? printed("%.2f", figure / of) : "-"; }

// what a stage switches on; the first lists how all begin
std::string switched(const Measured& row) {
  std::string text;
  for (const Switch& one : row.stage.switches)
    text += (text.empty() ? "" : " ") + one.name + "=" + one.after;
  return text.empty() ? joined(row.settings, " ") : text;
}

std::string table_text(const std::vector<Measured>& rows) {
  Table table({"stage", ">steps/s", ">lowest", ">highest", ">x first", ">x before", "switched on"});
  double first = 0, before = 0;
  for (const Measured& row : rows) {
    if (!row.skipped.empty()) {
      table.add({row.stage.name, "-", "-", "-", "-", "-", "left out: " + row.skipped});
      continue;
    }
    const double speed = median_speed(row);
    if (first == 0) first = speed;
    const auto figure = [](double steps_per_second) {
      return std::to_string(std::llround(steps_per_second));
    };
    const auto [low, high] = std::ranges::minmax(row.rounds, {}, &Speed::steps_per_second);
    table.add({row.stage.name, figure(speed), figure(low.steps_per_second),
               figure(high.steps_per_second), times(speed, first), times(speed, before),
               switched(row)});
    before = speed;
  }
  return table.text(probe_terminal(STDOUT_FILENO));
}

std::string json_text(const std::string& algo, const std::string& env,
                      const std::vector<std::string>& settings, const std::vector<Measured>& rows) {
  nlohmann::json stages = nlohmann::json::array();
  for (const Measured& row : rows) {
    nlohmann::json one = {{"stage", row.stage.name}, {"what", row.stage.what}};
    if (row.skipped.empty()) {
      one["settings"] = row.settings;
      one["steps_per_second"] = median_speed(row);
      one["rounds"] = nlohmann::json::array();
      for (const Speed& round : row.rounds)
        one["rounds"].push_back({{"steps_per_second", round.steps_per_second},
                                 {"updates", round.updates},
                                 {"seconds", round.seconds}});
    } else {
      one["left_out"] = row.skipped;
    }
    stages.push_back(std::move(one));
  }
  return nlohmann::json{
             {"algorithm", algo}, {"environment", env}, {"settings", settings}, {"stages", stages}}
             .dump(2) +
         "\n";
}

// each stage with settings besides those `given` to all, all stages in turn, so that what disturbs a
// while meets each alike
std::vector<Measured> measured_in_turn(const std::vector<Stage>& all, const Experiment& experiment,
                                       const Placement& placement,
                                       const std::vector<std::string>& given, int rounds,
                                       double seconds) {
  std::vector<bool> skipped(all.size(), false);
  std::vector<Measured> rows;
  for (const Stage& stage : all) {
    rows.push_back({.stage = stage, .settings = {}, .skipped = {}, .rounds = {}});
    rows.back().skipped = lacking(stage, experiment, placement);
    skipped[rows.size() - 1] = !rows.back().skipped.empty();
  }
  for (int round = 0; round < rounds; ++round)
    for (size_t i = 0; i < all.size(); ++i) {
      Measured& row = rows[i];
      if (!skipped[i]) {
        row.settings = settings_at(all, i, skipped, experiment.table());
        try {
          row.rounds.push_back(measure_training(joined_settings(given, row.settings), seconds));
        } catch (const Error& refused) {
          // the first stage is every build's; a later one may be refused for this environment, or
          // end by itself. One of a later round has its figures
          if (i == 0) throw;
          if (round > 0) {
            std::fprintf(stderr, "%s: %s\n", row.stage.name.c_str(), refused.what());
            continue;
          }
          row.skipped = refused.what();
          skipped[i] = true;
        }
      }
      if (skipped[i] && round > 0) continue;
      std::fprintf(
          stderr, "%s: %s\n", row.stage.name.c_str(),
          skipped[i]
              ? ("left out: " + row.skipped).c_str()
              : (std::to_string(int64_t(row.rounds.back().steps_per_second)) + " steps/s").c_str());
    }
  return rows;
}

int timeline(const Arguments& arguments) {
  const auto file = arguments.output("--json");
  if (arguments.positional().size() != 3)
    throw Error(
        "[bench] timeline wants <algorithm> <environment>, e.g. bench timeline ppo cartpole");
  const AlgoOnEnv pair = algo_on_env(arguments.positional(), 1);
  const auto& [algo, env] = pair;
  Experiment experiment(algo, env);
  print_notes(load_settings(experiment, arguments, arguments.settings()).notes);
  const Placement placement = place(experiment.run.device, experiment.run.threads);
  const double seconds = double(arguments.integer("--seconds", 1, 3600).value_or(kDefaultSeconds));
  const int rounds = int(arguments.integer("--rounds", 3, 1000).value_or(kTimelineRounds));
  // steps between updates, as the algorithm says; one that does not is taken to learn as it goes
  ThreadPool pool(1);
  const auto plan = experiment.algo().plan;
  const int64_t rollout =
      plan ? plan(experiment.algo_options(), context_of(experiment, placement, pool)).collect_steps
           : 1;
  const std::string update = std::to_string(experiment.run.env_count * rollout);

  // the same settings for all, then those of the stage
  std::vector<std::string> given = child_words(arguments, pair);
  given.insert(given.end(), arguments.settings().begin(), arguments.settings().end());
  given =
      joined_settings(given, {std::string("train.steps=") + kEndless, "train.log_every=" + update,
                              std::string("train.save_every=") + kEndless});

  const std::vector<Stage> all =
      as_given(stages(algo, experiment.run.env_count, rollout), experiment.table());
  const Bystanders bystanders;
  const auto rows = measured_in_turn(all, experiment, placement, given, rounds, seconds);
  tell_unrest(bystanders);
  print(table_text(rows));
  if (file) write_atomic(*file, json_text(algo, env, given, rows));
  return 0;
}

int replay(const Arguments& arguments) {
  if (arguments.positional().size() != 1 || !arguments.settings().empty())
    throw Error("[bench] replay takes no further words, got " +
                joined(arguments.positional(), " ") + " " + joined(arguments.settings(), " "));
  const double seconds =
      1e-3 * double(arguments.integer("--milliseconds", 1, 60'000).value_or(kDefaultMilliseconds));
  const Bystanders bystanders;
  std::vector<ReplayFigure> figures = measure_replay(seconds);
  if (arguments.has("--lines")) {
    print(replay_lines(figures));
    return 0;
  }
  const std::string python = home_folder() + "/.venv-bench/bin/python";
  std::string missing;
  if (access(python.c_str(), X_OK) != 0) {
    missing = "numpy and TorchRL are left out: there is no .venv-bench; bench/setup.sh makes it\n";
  } else {
    for (const char* peer : {"numpy", "torchrl"}) {
      const auto theirs =
          measure_peer(python, home_folder() + "/bench/peers/" + peer + "_storage.py", seconds);
      figures.insert(figures.end(), theirs.begin(), theirs.end());
    }
  }
  tell_unrest(bystanders);
  print(replay_table(figures) + missing);
  return 0;
}

int suites(const Arguments& arguments) {
  const auto chosen = suites_of(arguments.value("--suite").value_or("all"));
  const int rounds = int(arguments.integer("--rounds", 3, 1000).value_or(kRounds));
  const Outputs outputs(arguments, rounds);
  const std::string named = arguments.value("--devices").value_or("cpu");
  std::vector<at::Device> devices;
  std::vector<std::string> missing;
  for (const std::string& name : split_list(named, "--devices")) {
    try {
      devices.push_back(place(name, 1).device);
    } catch (const Error& why) {
      // a GPU that is not here leaves the others
      if (!name.starts_with("cuda")) throw;
      missing.push_back(why.what());
    }
  }
  if (devices.empty()) throw Error(missing[0]);
  print_notes(missing);
  if (std::ranges::all_of(devices, [](at::Device device) { return device.is_cuda(); }) &&
      std::ranges::all_of(chosen, host_only))
    throw Error("[bench] " + arguments.value("--suite").value_or("all") +
                " is measured on the processor alone; leave out --devices " + named +
                ", or measure a whole run there: bench run <algorithm> <environment>");
  const Bystanders bystanders;
  std::vector<Timing> timings;
  for (const at::Device& device : devices)
    for (Timing& one : measure_suites(chosen, device, rounds)) timings.push_back(std::move(one));
  tell_unrest(bystanders);
  const int status =
      tell_timings(arguments, outputs, timings, std::to_string(rounds) + " rounds, one thread",
                   nlohmann::json::object());
  for (const std::string& why : missing) print("not measured: " + why + "\n");
  return missing.empty() ? status : kNotMeasured;
}

// flags are those of one of the things that bench does
void refuse_others(const Arguments& arguments, const std::string& what) {
  struct Mode {
    std::string name;
    std::vector<const char*> flags;
  };
  static const std::vector<Mode> modes = {
      {"",
       {"--suite", "--devices", "--rounds", "--baseline", "--threshold", "--json", "--html",
        "--overwrite"}},
      {"timeline", {"--seconds", "--rounds", "--json", "--overwrite", "--config", "--bare"}},
      {"replay", {"--milliseconds", "--lines"}},
      {"--signature", {"--signature"}},
      {"run",
       {"--seconds", "--rounds", "--baseline", "--threshold", "--at-least", "--against", "--json",
        "--html", "--log", "--note", "--lines", "--overwrite", "--config", "--bare"}}};
  const auto mode = std::ranges::find(modes, what, &Mode::name);
  if (mode == modes.end()) return;
  for (const Mode& other : modes)
    for (const char* flag : other.flags)
      if (arguments.has(flag) &&
          std::ranges::find(mode->flags, std::string_view(flag)) == mode->flags.end())
        throw Error(std::string("[bench] ") + flag + " is of bench " +
                    (other.name.empty() ? "--suite" : other.name) + " and says nothing to " +
                    (what.empty() ? "the suites" : what) + "; leave it out");
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(
      entry(), words,
      {.flags =
           {{"--seconds", "N",
             "whole seconds measured of each round of a stage (default 5), of a run (default 1)"},
            {"--json", "FILE", "the figures as JSON, too"},
            {"--config", "FILE", "settings from YAML or JSON, as of train"},
            {"--bare", "", "without configs/<algorithm>/<environment>.yaml"},
            {"--milliseconds", "N", "measured of each case of replay (default 500)"},
            {"--lines", "",
             "replay: only ours; run: only its figures; as JSON, one object a line, no tables"},
            {"--suite", "NAMES",
             "by commas: ops, precision, memory, env, replay, kernels, planner, e2e, or all "
             "(default)"},
            {"--devices", "NAMES", "of the suites, by commas: cpu (default), cuda, cuda:<n>"},
            {"--rounds", "N",
             "samples of each work of the suites, of a run (default 9), of each stage (default 3); "
             "at least 3, and 6 where something is judged"},
            {"--baseline", "FILE", "what --json wrote before: a slower work is exit status 1"},
            {"--threshold", "X", "slower by less than this share is forgiven (default 0.05)"},
            {"--at-least", "N", "of a run: fewer steps a second are exit status 1"},
            {"--against", "'SETTINGS'",
             "of a run: name=value, several by spaces, that are otherwise in a second run; both "
             "are measured in turn, each round in a process of its own. Again for a third"},
            {"--log", "FILE", "of a run: adds a line of JSON, so that FILE is a history"},
            {"--note", "TEXT", "what was tried, for --log"},
            {"--html", "FILE", "the suites as a page, too"},
            {"--overwrite", "", "FILE may be there"},
            {"--signature", "", "a hash of each algorithm's state after 100 updates"}},
       .least = 0,
       .most = 3,
       .names = "timeline <algorithm> <environment> | run <algorithm> <environment> | replay",
       .settings = true});
  if (arguments.help()) return arguments.print_help();
  const std::string what = arguments.positional().empty() ? "" : arguments.positional()[0];
  refuse_others(arguments, arguments.has("--signature") ? "--signature" : what);
  if (arguments.has("--signature")) {
    for (const Signature& one : signatures(kSignedUpdates)) print(one.algo + " " + one.hash + "\n");
    return 0;
  }
  if (arguments.positional().empty() && arguments.settings().empty()) return suites(arguments);
  if (what == "replay") return replay(arguments);
  for (const char* flag : {"--devices", "--suite"})
    if (arguments.has(flag) && what != "timeline" && what != "run")
      throw Error("[bench] " + std::string(flag) + " takes names by commas: " + flag + " " +
                  *arguments.value(flag) + "," + joined(arguments.positional(), ","));
  if (what != "timeline" && what != "run")
    throw Error("[bench] knows run, timeline, replay and --signature, got " +
                (what.empty() ? "nothing" : what) +
                "; suites are named by --suite, e.g. --suite memory; beside other programs it is "
                "measured by python3 bench/run.py");
  if (what == "run") return one_run(arguments);
  const SignalGuard signals;
  try {
    return timeline(arguments);
  } catch (const Interrupted&) {
    std::fprintf(stderr, "maglev: stopped\n");
    return train::kStopped;
  }
}

}  // namespace

VerbEntry entry() {
  return {
      .name = "bench",
      .summary = "how fast the engine's parts are, and were; what each optimisation is worth",
      .usage =
          "bench [--suite NAMES] [--devices NAMES] [--baseline FILE] [--json FILE] [--html FILE] | "
          "bench run <algorithm> <environment> [--baseline FILE] [--at-least N] [--against "
          "'setting=value ...'] [--json FILE] [--log FILE] [setting=value ...] | "
          "bench timeline <algorithm> <environment> [--seconds S] [--rounds N] [--json FILE] "
          "[setting=value ...] | bench replay [--milliseconds N] [--lines] | bench --signature",
      .run = run};
}

}  // namespace maglev::verbs::bench
