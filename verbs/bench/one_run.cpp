#include "verbs/bench/one_run.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/printed.h"
#include "base/core/terminal.h"
#include "base/core/words.h"
#include "engine/algo/experiment.h"
#include "engine/host/bystanders.h"
#include "engine/host/system.h"
#include "engine/train/signals.h"
#include "verbs/bench/arms.h"
#include "verbs/bench/history.h"
#include "verbs/bench/outputs.h"
#include "verbs/bench/run_child.h"
#include "verbs/bench/run_speed.h"
#include "verbs/notes.h"
#include "verbs/settings.h"
#include "verbs/table.h"
#include "verbs/train/seeds.h"

namespace maglev::verbs::bench {
namespace {

// a line for each setting that a baseline was measured with otherwise
std::vector<std::string> other_settings(const std::string& path, const std::string& baseline,
                                        const nlohmann::json& now) {
  const auto file = nlohmann::json::parse(baseline, nullptr, /*allow_exceptions=*/false);
  if (!file.is_object() || !file.contains("settings")) return {};
  std::vector<std::string> lines;
  for (const auto& [name, value] : now.items())
    if (const auto then = file["settings"].value(name, value); then != value)
      lines.push_back(path + " was measured with " + name + "=" + then.dump() + ", now " +
                      value.dump());
  return lines;
}

void append(AppendFile& log, const Logged& logged) {
  log.append(log_line(logged));
  log.flush();
}

// the run as given and with each --against, and lines for people on their settings
std::vector<Arm> arms_of(const Arguments& arguments, const AlgoOnEnv& pair,
                         std::vector<std::string>& told) {
  std::vector<Arm> arms;
  std::vector<std::string> changes = arguments.values("--against");
  changes.insert(changes.begin(), "");
  for (const std::string& against : changes) {
    Arm arm;
    if (!arms.empty()) arm.changes = changes_of(against);
    const auto settings = joined_settings(arguments.settings(), arm.changes);
    Experiment experiment(pair.algo, pair.env);
    std::vector<std::string> notes = load_settings(experiment, arguments, settings).notes;
    for (std::string& note : experiment.settle()) notes.push_back(std::move(note));
    for (std::string& note : settle_arm(arm, experiment, arms)) notes.push_back(std::move(note));
    for (const std::string& note : notes)
      if (std::ranges::find(told, note) == told.end()) told.push_back(note);
    arm.words = child_words(arguments, pair);
    arm.words.insert(arm.words.end(), settings.begin(), settings.end());
    arms.push_back(std::move(arm));
  }
  return arms;
}

// a line of each but the first
void log_arms(AppendFile& log, const Arguments& arguments, const AlgoOnEnv& pair,
              const std::vector<Arm>& arms, double threshold, const std::string& how) {
  const Arm& first = arms[0];
  const Timing step = first.step();
  const auto& given = arguments.settings();
  const std::string what = given.empty() ? first.name() : joined(given, " ");
  for (size_t i = 1; i < arms.size(); ++i) {
    const ArmComparison found = beside(arms[i], first, threshold);
    append(log, {.what = pair.algo + " " + pair.env,
                 .settings = joined_settings(given, arms[i].changes),
                 .note = arguments.value("--note").value_or(""),
                 .machine = machine_of(how + ", " + arms[i].speed().device),
                 .step = summary_of(arms[i].step()),
                 .run = arms[i].speed(),
                 .before = Reference{.what = what,
                                     .step = summary_of(step),
                                     .ratio = found.ratio,
                                     .verdict = found.verdict}});
  }
}

// the run as given and with each --against, in turn
int runs_in_turn(const Arguments& arguments, const AlgoOnEnv& pair, int rounds, double seconds) {
  for (const char* flag : {"--baseline", "--at-least", "--html", "--lines"})
    if (arguments.has(flag))
      throw Error("[bench] " + std::string(flag) +
                  " is of one run, and --against of several; leave one of them out");

  // what could be refused is, before anything is measured
  std::vector<std::string> told;
  std::vector<Arm> arms = arms_of(arguments, pair, told);
  print_notes(told);
  Outputs outputs(arguments, rounds);

  const SignalGuard signals;
  try {
    const Bystanders bystanders;
    measure_in_turn(arms, rounds, seconds);
    tell_unrest(bystanders);
  } catch (const Interrupted&) {
    std::fprintf(stderr, "maglev: stopped\n");
    return train::kStopped;
  }
  const Arm& first = arms[0];
  const double threshold = outputs.threshold;
  const std::string how = std::to_string(rounds) + " rounds in turn";
  print(arms_text(arms, threshold, probe_terminal(STDOUT_FILENO)));
  for (const Arm& arm : arms)
    if (arm.rounds[0].steps_per_iteration != first.rounds[0].steps_per_iteration)
      print("an iteration of " + arm.name() + " is of " +
            by_thousands(arm.rounds[0].steps_per_iteration) + " steps, of " + first.name() +
            " of " + by_thousands(first.rounds[0].steps_per_iteration) + ": steps/s compare\n");
  if (outputs.json) write_atomic(*outputs.json, arms_json(arms, threshold, machine_of(how)));
  if (outputs.log) log_arms(*outputs.log, arguments, pair, arms, threshold, how);
  return 0;
}

// what a run was before, where a baseline says
std::optional<Reference> before_of(const Arguments& arguments, const Outputs& outputs,
                                   const Timing& step) {
  const auto found = compared({step}, outputs.before, outputs.threshold);
  if (found.empty()) return std::nullopt;
  const auto old = std::ranges::find_if(outputs.before, [&](const Timing& one) {
    return one.suite == step.suite && one.name == step.name;
  });
  return Reference{.what = *arguments.value("--baseline"),
                   .step = summary_of(*old),
                   .ratio = 1 / found[0].ratio,
                   .verdict = found[0].verdict};
}

}  // namespace

int one_run(const Arguments& arguments) {
  if (arguments.positional().size() != 3)
    throw Error("[bench] run wants <algorithm> <environment>, e.g. bench run ppo cartpole");
  const bool lines = arguments.has("--lines");
  // one that is printed as it is needs no interval
  const int rounds = int(arguments.integer("--rounds", lines ? 1 : 3, 1000).value_or(kRounds));
  const double seconds = double(arguments.integer("--seconds", 1, 3600).value_or(1));
  const auto least = arguments.number("--at-least", 0, 1e12);
  if (arguments.has("--note") && !arguments.has("--log"))
    throw Error("[bench] --note is written by --log FILE; give that too");
  const AlgoOnEnv pair = algo_on_env(arguments.positional(), 1);
  if (arguments.has("--against")) return runs_in_turn(arguments, pair, rounds, seconds);
  Experiment experiment(pair.algo, pair.env);
  print_notes(load_settings(experiment, arguments, arguments.settings()).notes);
  print_notes(experiment.settle());
  Outputs outputs(arguments, rounds);
  nlohmann::json settings;
  for (const Field& field : experiment.table().fields()) settings[field.name] = field.text();
  if (const auto path = arguments.value("--baseline"))
    print_notes(other_settings(*path, outputs.baseline, settings));
  const Bystanders bystanders;
  const RunSpeed speed = measure_run(experiment, rounds, seconds);
  if (lines) {
    print(line_of(speed));
    return 0;
  }
  tell_unrest(bystanders);
  const TimingSummary step = summary_of(speed.step);
  const double iteration_s = step.median * double(speed.steps_per_iteration);
  const std::string how = counted(rounds, "round") + ", " + speed.device;
  nlohmann::json beside = {{"settings", settings},
                           {"warmup_seconds", speed.warmup_s},
                           {"seconds_per_iteration", iteration_s},
                           {"peak_mib", mib(speed.peak_bytes)}};
  if (speed.device_peak_bytes > 0) beside["device_peak_mib"] = mib(speed.device_peak_bytes);
  const int status = tell_timings(arguments, outputs, {speed.step}, how, beside);
  const double steps_per_second = 1 / step.median;
  std::printf("%.0f steps/s (%s)\nwarm-up %.1f s\n", steps_per_second, speed.device.c_str(),
              speed.warmup_s);
  std::printf("iteration %s, of %s steps\npeak memory %s%s\n", seconds_text(iteration_s).c_str(),
              by_thousands(speed.steps_per_iteration).c_str(), bytes_text(speed.peak_bytes).c_str(),
              speed.device_peak_bytes > 0
                  ? (", on the GPU " + bytes_text(speed.device_peak_bytes)).c_str()
                  : "");
  if (outputs.log)
    append(*outputs.log, {.what = pair.algo + " " + pair.env,
                          .settings = arguments.settings(),
                          .note = arguments.value("--note").value_or(""),
                          .machine = machine_of(how),
                          .step = step,
                          .run = speed,
                          .before = before_of(arguments, outputs, speed.step)});
  if (!least || steps_per_second >= *least) return status;
  std::printf("slower than --at-least %.0f\n", *least);
  return kRegressed;
}

}  // namespace maglev::verbs::bench
