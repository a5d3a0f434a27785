// maglev train: trains an agent, or continues a run.

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/home.h"
#include "base/core/shell_word.h"
#include "base/core/split.h"
#include "engine/host/machine.h"
#include "engine/run/several_runs.h"
#include "engine/train/training_run.h"
#include "verbs/arguments.h"
#include "verbs/notes.h"
#include "verbs/settings.h"
#include "verbs/table.h"
#include "verbs/train/again.h"
#include "verbs/train/seeds.h"
#include "verbs/verb.h"

namespace maglev::verbs::train {

VerbEntry entry();

namespace {

constexpr int kDiverged = 3;

Grammar grammar() {
  return {
      .flags =
          {{"--out", "DIR", "run folder (default runs/<date>-<algorithm>-<environment>-<n>)"},
           {"--overwrite", "", "DIR may hold a run; it is moved aside, not deleted"},
           {"--config", "FILE", "settings from YAML or JSON, before those on the command line"},
           {"--bare", "",
            "do not load the proven settings of configs/<algorithm>/<environment>.yaml, or "
            "any.yaml"},
           {"--memory-limit", "SIZE",
            "refuse a run that will hold more, e.g. 4GiB (default: what is free)"},
           {"--shrink", "", "make the replay fit the limit instead"},
           {"--resume", "RUN", "continue this run, or these seeds, from the newest checkpoint"},
           {"--continue", "",
            "go on in DIR where it holds this run already; nothing is done where that is finished"},
           {"--seeds", "N",
            "train N seeds, from the setting seed on, side by side as threads allow, and sum up"},
           {"--listen", "[HOST:]PORT",
            "with machines=N: wait here for the others, on which `maglev join` is called"},
           {"--sinks", "NAMES",
            "where metrics go, e.g. console,jsonl (default: all that are on by default; a run that "
            "is resumed keeps those it was given last, and the console)"}},
      .least = 0,
      .most = 2,
      .names = "<algorithm> <environment>",
      .settings = true};
}

bool is_profile(const std::string& word) {
  return word.starts_with("+hardware=") || word.starts_with("hardware=");
}

int exit_status(RunOutcome outcome) {
  return outcome == RunOutcome::finished   ? 0
         : outcome == RunOutcome::diverged ? kDiverged
                                           : kStopped;
}

// what a run with processes=N starts, not people
constexpr const char* kProcess = "--process";

int run_process(const std::string& place) {
  claim_threads();
  // nobody need read what it says
  std::signal(SIGPIPE, SIG_IGN);
  return train_process(place) ? 0 : 1;
}

int print_settings(const Arguments& arguments) {
  arguments.print_help();
  if (arguments.positional().size() != 2) {
    print("\n`maglev train <algorithm> <environment> --help` lists their settings.\n");
    return 0;
  }
  const auto [algo, env] = algo_on_env(arguments.positional());
  Experiment experiment(algo, env);
  const std::string proven = load_settings(experiment, arguments, arguments.settings()).proven;
  print("\nsettings (name=value), with the default each will have here" +
        (proven.empty() ? std::string() : "; bare: without " + proven) + ":\n" +
        experiment.table().help());
  return 0;
}

RunRequest request_of(const Arguments& arguments, const std::vector<std::string>& words) {
  RunRequest request;
  for (const char* flag : {"--out", "--sinks", "--listen"})
    if (arguments.value(flag) == "")
      throw Error(std::string("[train] ") + flag + " needs a value; leave it out for the default");
  request.out = arguments.value("--out").value_or("");
  request.overwrite = arguments.has("--overwrite");
  if (auto sinks = arguments.value("--sinks")) request.sinks = split_list(*sinks, "--sinks");
  request.process = {"/proc/self/exe", "train", kProcess};
  request.listen = arguments.value("--listen").value_or("");
  request.command = {command_name(), "train"};
  // how to get the run again: not on top of itself
  std::ranges::copy_if(words, std::back_inserter(request.command),
                       [](const std::string& word) { return word != "--continue"; });
  return request;
}

// those given as name=value, and those that have a flag
std::vector<std::string> settings_of(const Arguments& arguments) {
  std::vector<std::string> settings = arguments.settings();
  if (auto limit = arguments.value("--memory-limit"))
    settings.push_back("train.memory_limit=" + *limit);
  if (arguments.has("--shrink")) settings.push_back("train.shrink_replay=true");
  return settings;
}

int resume(const std::string& folder, const Arguments& arguments,
           const std::vector<std::string>& settings, std::optional<int64_t> seeds,
           const RunRequest& request) {
  const auto& names = arguments.positional();
  if (!names.empty())
    throw Error("[train] --resume takes algorithm and environment from the run; leave out '" +
                names[0] + "'");
  const bool several = is_seeds(folder);
  for (const char* flag : {"--out", "--overwrite", "--continue", "--config", "--bare", "--seeds"})
    if (arguments.has(flag) && !(several && flag == std::string_view("--seeds")))
      throw Error(std::string("[train] ") + flag +
                  " is for a new run; one that is resumed goes on in its folder, with its "
                  "settings and what is given as name=value: leave it out");
  for (const std::string& word : settings)
    if (is_profile(word))
      throw Error("[train] a run that is resumed keeps its settings; " + word +
                  " is for a new one, leave it out or give what it sets as name=value");
  return exit_status(several ? resume_seeds(folder, request.sinks, settings, RemovedSeed::is_lost,
                                            seeds.value_or(0))
                             : train_resume(folder, settings, request));
}

int run(const std::vector<std::string>& words) {
  if (words.size() == 2 && words[0] == kProcess) return run_process(words[1]);
  const Arguments arguments(entry(), words, grammar());
  if (arguments.help()) return print_settings(arguments);
  claim_threads();
  RunRequest request = request_of(arguments, words);
  const std::vector<std::string> settings = settings_of(arguments);
  const auto seeds = arguments.integer("--seeds", 1, 10'000);
  if (const auto folder = arguments.value("--resume"))
    return resume(*folder, arguments, settings, seeds, request);
  const auto& names = arguments.positional();
  if (const std::string answer = arguments.answer_to_settings();
      names.size() != 2 && !answer.empty())
    throw Error("[train] " + answer);
  if (names.size() != 2)
    throw Error(
        "[train] expects <algorithm> <environment>, e.g. maglev train ppo goodhart; `maglev envs` "
        "and `maglev algos` list them");
  const bool again = arguments.has("--continue");
  if (again && (request.out.empty() || request.overwrite))
    throw Error("[train] --continue goes on in the folder of --out DIR, without --overwrite");
  const auto [algo, env] = algo_on_env(names);
  Experiment experiment(algo, env);
  request.notes = arguments.replaced();
  const LoadedSettings loaded = load_settings(experiment, arguments, settings);
  request.notes.insert(request.notes.end(), loaded.notes.begin(), loaded.notes.end());
  for (const std::string& note : experiment.settle()) request.notes.push_back(note);
  request.given = given_settings(experiment.table());
  if (again)
    if (const auto outcome = go_on(experiment, seeds, request)) return exit_status(*outcome);
  if (!seeds && !request.out.empty() && is_seeds(request.out))
    throw Error("[" + request.out + "] holds several seeds, and a run wants a folder of its own: " +
                "go on with them (--resume " + shell_word(request.out) +
                "), or choose another folder for --out");
  if (!seeds) return exit_status(train_new(experiment, request));
  print_notes(request.notes);
  if (request.overwrite) throw Error("[train] --seeds wants a new folder; leave out --overwrite");
  // all seeds meet the same, whenever they begin
  if (const std::string note = settle_names(experiment); !note.empty()) print_notes({note});
  return exit_status(train_seeds(
      experiment,
      {.out = request.out, .count = *seeds, .sinks = request.sinks, .given = request.given}));
}

}  // namespace

VerbEntry entry() {
  return {.name = "train",
          .summary = "train an agent, or continue a run",
          .usage =
              "train <algorithm> <environment> [+hardware=auto|NAME|FILE] [setting=value ...] "
              "[--seeds N] [--out DIR --continue] "
              "| train --resume RUN [setting=value ...]",
          .run = run};
}

}  // namespace maglev::verbs::train
