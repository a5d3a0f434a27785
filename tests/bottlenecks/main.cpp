// A program around the engine with the mistakes people make, each switched on by a name: for
// tests/python/test_bottlenecks.py and bench/bottlenecks.py.
//
//   maglev-bottlenecks list                               the names, each with what has to be found
//   maglev-bottlenecks NAME FOLDER [name=value ...]       a run with that mistake
//   maglev-bottlenecks without NAME FOLDER [name=value ...]   the same run without it
//
// A run prints how many seconds a step took.

#include <cstdio>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include <sys/prctl.h>

#include "base/core/clock.h"
#include "base/core/error.h"
#include "engine/host/machine.h"
#include "engine/train/training_run.h"
#include "tests/bottlenecks/mistakes.h"

namespace {

using maglev::Mistake;

const Mistake& mistake_of(const std::string& name) {
  for (const Mistake& mistake : maglev::mistakes())
    if (name == mistake.name) return mistake;
  throw maglev::Error("[bottlenecks] there is no " + name + "; `list` says what there is");
}

int list() {
  for (const Mistake& mistake : maglev::mistakes())
    std::printf("%s\t%s\t%s\n", mistake.name, mistake.finding, mistake.verdict);
  return 0;
}

int train(const std::vector<std::string>& words) {
  const bool without = words[0] == "without";
  const Mistake& mistake = mistake_of(words[without ? 1 : 0]);
  const size_t folder = without ? 2 : 1;
  // memory comes in pages of one size on every machine
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  maglev::claim_threads();
  maglev::Experiment experiment("ppo", mistake.environment);
  const auto set = [&](const std::vector<std::string>& settings) {
    for (const std::string& setting : settings) experiment.table().override_with(setting);
  };
  set(mistake.run);
  if (!without) set(mistake.settings);
  set({words.begin() + long(folder) + 1, words.end()});
  maglev::RunRequest request{.out = words.at(folder), .sinks = {"jsonl"}};
  if (!without && mistake.hooks) request.hooks = mistake.hooks();
  // from the first iteration's begin to the last one's: without what comes before and behind
  int64_t begun = 0, first_step = 0, last_step = 0;
  double first_s = 0, last_s = 0;
  request.hooks.iteration_start = [&, then = request.hooks.iteration_start](int64_t step) {
    last_step = step, last_s = maglev::steady_s();
    if (begun++ == 0) first_step = last_step, first_s = last_s;
    if (then) then(step);
  };
  const bool finished = maglev::train_new(experiment, request) == maglev::RunOutcome::finished;
  if (begun > 1) std::printf("%.9g\n", (last_s - first_s) / double(last_step - first_step));
  return finished ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  const std::vector<std::string> given(words + 1, words + count);
  try {
    if (given.size() == 1 && given[0] == "list") return list();
    if (given.size() < 2 || (given[0] == "without" && given.size() < 3)) {
      std::fputs("usage: maglev-bottlenecks list | [without] NAME FOLDER [name=value ...]\n",
                 stderr);
      return 2;
    }
    return train(given);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "maglev-bottlenecks: %s\n", error.what());
    return 2;
  }
}
