// maglev train: trains an agent, or continues a run.

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/core/error.h"
#include "base/core/split.h"
#include "engine/host/machine.h"
#include "engine/train/training_run.h"
#include "verbs/arguments.h"
#include "verbs/verb.h"

namespace maglev::verbs::train {

VerbEntry entry();

namespace {

constexpr int kDiverged = 3, kStopped = 130;

Grammar grammar() {
  return {
      .flags = {{"--out", "DIR", "run folder (default runs/<date>-<algorithm>-<environment>-<n>)"},
                {"--overwrite", "", "DIR may hold a run; it is moved aside, not deleted"},
                {"--config", "FILE",
                 "settings from YAML or JSON, before those on the command line"},
                {"--bare", "",
                 "do not load the proven settings of configs/<algorithm>/<environment>.yaml"},
                {"--memory-limit", "SIZE",
                 "refuse a run that will hold more, e.g. 4GiB (default: what is free)"},
                {"--shrink", "", "make the replay fit the limit instead"},
                {"--resume", "RUN", "continue this run from its newest checkpoint"},
                {"--sinks", "NAMES",
                 "where metrics go, e.g. console,jsonl (default: all that are on by default)"}},
      .least = 0,
      .most = 2,
      .names = "<algorithm> <environment>",
      .settings = true};
}

int exit_status(RunOutcome outcome) {
  return outcome == RunOutcome::finished   ? 0
         : outcome == RunOutcome::diverged ? kDiverged
                                           : kStopped;
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(entry(), words, grammar());
  const auto& names = arguments.positional();
  if (arguments.help()) {
    arguments.print_help();
    if (names.size() == 2) {
      Experiment experiment(names[0], names[1]);
      std::printf("\nsettings (name=value):\n%s", experiment.table().help().c_str());
    } else {
      std::printf("\n`maglev train <algorithm> <environment> --help` lists their settings.\n");
    }
    return 0;
  }
  claim_threads();
  RunRequest request;
  for (const char* flag : {"--out", "--sinks"})
    if (arguments.value(flag) == "")
      throw Error(std::string("[train] ") + flag + " needs a value; leave it out for the default");
  request.out = arguments.value("--out").value_or("");
  request.overwrite = arguments.has("--overwrite");
  if (auto sinks = arguments.value("--sinks")) request.sinks = split_list(*sinks);
  request.command = {"./maglev", "train"};
  request.command.insert(request.command.end(), words.begin(), words.end());

  std::vector<std::string> settings = arguments.settings();
  if (auto limit = arguments.value("--memory-limit"))
    settings.push_back("train.memory_limit=" + *limit);
  if (arguments.has("--shrink")) settings.push_back("train.shrink_replay=true");
  if (auto folder = arguments.value("--resume")) {
    if (!names.empty())
      throw Error("[train] --resume takes algorithm and environment from the run; leave out '" +
                  names[0] + "'");
    return exit_status(train_resume(*folder, settings, request));
  }
  if (names.size() != 2)
    throw Error(
        "[train] expects <algorithm> <environment>, e.g. maglev train ppo goodhart; `maglev envs` "
        "and `maglev algos` list them");
  Experiment experiment(names[0], names[1]);
  const char* home = std::getenv("MAGLEV_HOME");
  if (!arguments.has("--bare")) experiment.load_proven(home ? home : ".");
  if (auto file = arguments.value("--config")) experiment.table().load(*file);
  for (const auto& setting : settings) experiment.table().override_with(setting);
  return exit_status(train_new(experiment, request));
}

}  // namespace

VerbEntry entry() {
  return {.name = "train",
          .summary = "train an agent, or continue a run",
          .usage =
              "train <algorithm> <environment> [setting=value ...] | train --resume RUN "
              "[setting=value ...]",
          .run = run};
}

}  // namespace maglev::verbs::train
