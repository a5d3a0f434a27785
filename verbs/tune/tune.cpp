// maglev tune: finds by measuring which settings a run is fastest with on this machine, of those
// that do not change what is learned.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <unistd.h>

#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/home.h"
#include "base/core/printed.h"
#include "base/core/shell_word.h"
#include "base/core/split.h"
#include "engine/host/system.h"
#include "engine/train/processes.h"
#include "engine/train/signals.h"
#include "verbs/arguments.h"
#include "verbs/bench/run_child.h"
#include "verbs/notes.h"
#include "verbs/settings.h"
#include "verbs/table.h"
#include "verbs/train/seeds.h"
#include "verbs/tune/cache.h"
#include "verbs/tune/knobs.h"
#include "verbs/tune/report.h"
#include "verbs/tune/trials.h"
#include "verbs/verb.h"

namespace maglev::verbs::tune {

VerbEntry entry();

namespace {

constexpr double kDefaultBudget = 120, kLeastBudget = 1, kMostBudget = 86'400;

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts;
  localtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
  return text;
}

// what is searched and what is not, before it begins
void tell_knobs(const Knobs& knobs) {
  std::string text = "searched:";
  for (const Knob& knob : knobs.searched) {
    text += " " + knob.setting + " (" + knob.now;
    for (const std::string& value : knob.values) text += "|" + value;
    text += ")";
  }
  std::fprintf(stderr, "%s\n", text.c_str());
  for (const Idle& idle : knobs.idle)
    std::fprintf(stderr, "left as it is: %s, for %s\n", idle.setting.c_str(), idle.why.c_str());
}

Tuned measured(const Experiment& experiment, const Knobs& knobs, double budget) {
  Trials trials(experiment);
  const double begin = steady_s();
  double before = 0;  // the speed of the settings as they are
  const World world{.plan = [&](const Candidate& c) { return trials.plan(c); },
                    .measure = [&](const Candidate& c, double seconds,
                                   double limit) { return trials.measure(c, seconds, limit); },
                    .clock = [] { return steady_s(); },
                    .told =
                        [&](const Row& row, double speed) {
                          if (row.state == State::left_out) return;
                          if (row.candidate.empty()) before = speed;
                          const std::string came =
                              speed > 0 ? printed("%.0f steps/s, %.2f x", speed, speed / before)
                                        : row.why;
                          std::fprintf(stderr, "%5.1f s of %.0f  %s: %s\n", steady_s() - begin,
                                       budget, settings_text(row.candidate).c_str(), came.c_str());
                        }};
  Tuned tuned{.made = now_text(),
              .settings = {},
              .outcome = search(knobs.searched, budget, world),
              .budget = budget};
  tuned.settings = tuned.outcome.rows[tuned.outcome.chosen].candidate;
  return tuned;
}

Grammar grammar() {
  return {.flags = {{"--budget", "TIME", "for all of it, e.g. 120s or 2m (default 120s)"},
                    {"-o", "FILE", "what is found as a profile, e.g. configs/hardware/mine.yaml"},
                    {"--overwrite", "", "FILE may be there"},
                    {"--learning", "NAMES",
                     "settings besides, by commas, which change what is learned, e.g. "
                     "env.count,ppo.rollout"},
                    {"--retune", "", "measure, whatever was found before"},
                    {"--config", "FILE", "settings from YAML or JSON, as of train"},
                    {"--bare", "", "without the proven settings"},
                    {"--json", "", "as JSON"}},
          .least = 2,
          .most = 2,
          .names = "<algorithm> <environment>",
          .settings = true};
}

// what was found before, or is measured now and kept; none where a signal came meanwhile. One that
// ran out of time stands until there is more of it
std::optional<Tuned> tuned_for(const Experiment& experiment, const Knobs& knobs, double budget,
                               const CacheKey& key, bool retune) {
  auto tuned = retune ? std::nullopt : read_cache(key);
  if (tuned && tuned->outdone_by(budget)) {
    std::fprintf(stderr, "what was found on %s had no time for all, in %.0f s: measured again\n",
                 tuned->made.c_str(), tuned->budget);
  } else if (tuned) {
    std::fprintf(stderr, "found on %s, in %s; --retune measures again\n", tuned->made.c_str(),
                 cache_file(key).c_str());
    return tuned;
  }
  if (knobs.searched.empty())
    throw Error("[tune] there is nothing to search: no free setting has a second value here");
  tell_knobs(knobs);
  const SignalGuard signals;
  try {
    tuned = measured(experiment, knobs, budget);
  } catch (const bench::Interrupted&) {
    std::fprintf(stderr, "maglev: stopped; what was measured so far is forgotten\n");
    return std::nullopt;
  }
  try {
    write_cache(key, *tuned);
  } catch (const Error& e) {
    // it took minutes, and is told even so
    std::fprintf(stderr, "maglev: %s; what was found is not kept, but by -o FILE.yaml\n", e.what());
  }
  return tuned;
}

// the words of train behind which +hardware=auto finds it again: what it was tuned with
std::string given_words(const std::string& pair, const Arguments& arguments) {
  std::string given = pair;
  if (arguments.has("--bare")) given += " --bare";
  if (const auto config = arguments.value("--config")) given += " --config " + shell_word(*config);
  for (const std::string& setting : arguments.settings()) given += " " + shell_word(setting);
  return given;
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(entry(), words, grammar());
  if (arguments.help()) return arguments.print_help();
  const double budget =
      arguments.seconds("--budget", kLeastBudget, kMostBudget).value_or(kDefaultBudget);
  const auto file = arguments.output("-o");
  if (file && !file->ends_with(".yaml"))
    throw Error("[tune] -o wants a name that ends in .yaml, as +hardware= takes it, got " + *file);
  const auto [algo, env] = algo_on_env(arguments.positional());
  if (std::ranges::count(arguments.settings(), "+hardware=auto"))
    throw Error("[tune] finds what +hardware=auto stands for; leave it out");
  claim_threads();
  Experiment experiment(algo, env);
  print_notes(load_settings(experiment, arguments, arguments.settings()).notes);
  const std::vector<std::string> learning =
      split_list(arguments.value("--learning").value_or(""), "--learning");
  if (experiment.run.machines > 1)
    throw Error("[tune] measures on one machine; leave machines out");
  const CacheKey key = cache_key(experiment, learning);
  print_notes(experiment.settle());
  const RunOptions& options = experiment.run;
  // settings that contradict each other are refused here, before anything is measured
  const Placement placement =
      share_of(experiment, place(options.device, options.threads, options.precision));
  const Knobs knobs = knobs_of(experiment, placement, learning);

  const auto tuned = tuned_for(experiment, knobs, budget, key, arguments.has("--retune"));
  if (!tuned) return train::kStopped;
  for (const Setting& one : tuned->settings)
    if (!experiment.table().find(one.name)->rule.free)
      std::fprintf(stderr, "maglev: %s=%s changes what is learned: judge it by a training run\n",
                   one.name.c_str(), one.value.c_str());

  const System system = probe_system(".");
  const std::string pair = algo + " " + env;
  const std::string given = given_words(pair, arguments);
  if (arguments.has("--json")) {
    print(tuned_json(*tuned));
  } else {
    print(printed("%s on %s, measured in %.0f s\n\n", pair.c_str(), system.processor.model.c_str(),
                  tuned->outcome.seconds) +
          table_text(tuned->outcome, probe_terminal(STDOUT_FILENO)) + "\n" +
          verdict_text(tuned->outcome) + "\n" +
          (learning.empty() && read_cache(key)
               ? "use it: " + command_name() + " train " + given + " +hardware=auto\n"
               : ""));
  }
  if (file) {
    write_atomic(*file,
                 profile_yaml(*tuned, "Found by " + command_name() + " tune " + pair + " on " +
                                          tuned->made + ", " + system.processor.model + "."));
    std::fprintf(stderr, "written: %s; %s train %s +hardware=%s\n", file->c_str(),
                 command_name().c_str(), given.c_str(), shell_word(*file).c_str());
  }
  return 0;
}

}  // namespace

VerbEntry entry() {
  return {.name = "tune",
          .summary = "the settings a run is fastest with here, found by measuring",
          .usage =
              "tune <algorithm> <environment> [setting=value ...] [--budget 120s] [-o FILE] "
              "[--learning NAMES] [--retune]",
          .run = run};
}

}  // namespace maglev::verbs::tune
