// maglev tell: what signals do, by the folder of what trains in place of a process's number.

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <set>
#include <span>
#include <thread>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/find.h"
#include "engine/run/run_dir.h"
#include "engine/run/several_runs.h"
#include "verbs/arguments.h"
#include "verbs/verb.h"

namespace maglev::verbs::tell {

VerbEntry entry();

namespace {

constexpr auto kPoll = std::chrono::milliseconds(100);

struct Word {
  const char* name;
  int signal;
  const char* then;  ///< what the process does
};
constexpr Word kWords[] = {
    {"stop", SIGTERM, "ends its iteration, saves and leaves"},
    {"save", SIGUSR1, "saves and goes on"},
    {"trace", SIGUSR2, "traces the next iterations, as many as trace.length says"}};

// files that are locked while something in the folder is trained: the run's, the one of the group of
// seeds, those of a sweep's trials
std::vector<std::string> locks_of(const std::string& folder) {
  if (is_seeds(folder)) return {folder + "/seeds.lock"};
  if (!is_sweep(folder)) return {folder + "/run.lock"};
  std::vector<std::string> locks;
  for (const std::string& trial : list_dir(folder + "/trials"))
    locks.push_back(folder + "/trials/" + trial + "/trial.lock");
  return locks;
}

bool any_held(const std::vector<std::string>& locks) {
  return std::ranges::any_of(
      locks, [](const std::string& lock) { return path_exists(lock) && FileLock::held(lock); });
}

std::string state_of(const std::string& folder) {
  if (!is_run(folder) || !path_exists(folder + "/run.json")) return "";
  return ", its state is " + read_status(folder).state;
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(
      entry(), words,
      {.flags = {{"--wait", "", "of stop: return when it has saved and left"}},
       .least = 2,
       .most = 2,
       .names = "<run> stop|save|trace"});
  if (arguments.help()) return arguments.print_help();
  const std::string& folder = arguments.positional()[0];
  const Word& word =
      find_row(std::span<const Word>(kWords), arguments.positional()[1], "[tell] ", "word");
  if (arguments.has("--wait") && word.signal != SIGTERM)
    throw Error("[tell] --wait is of stop; leave it out");
  if (!is_run(folder) && !is_seeds(folder) && !is_sweep(folder)) throw no_run(folder);

  const std::vector<std::string> locks = locks_of(folder);
  std::set<int> processes;
  for (const std::string& lock : locks)
    if (const auto holder = FileLock::holder(lock)) processes.insert(*holder);
  if (processes.empty() && any_held(locks))
    throw Error("[tell] " + folder +
                " is trained on another machine, or by somebody else: tell it there");
  if (processes.empty())
    throw Error("[tell] " + folder + " is not being trained now" + state_of(folder));
  for (const int process : processes) {
    if (::kill(process, word.signal) != 0)
      throw Error("[tell] process " + std::to_string(process) + " of " + folder +
                  " cannot be told: " + std::strerror(errno));
    std::printf("process %d %s\n", process, word.then);
  }
  while (arguments.has("--wait") && any_held(locks)) std::this_thread::sleep_for(kPoll);
  return 0;
}

}  // namespace

VerbEntry entry() {
  return {
      .name = "tell",
      .summary = "have what trains stop, save or record a trace, by its folder",
      .usage =
          "tell <run> stop|save|trace [--wait]\n"
          "  the run, the seeds or the sweep in this folder, on this machine: as SIGTERM, SIGUSR1 "
          "and SIGUSR2 do",
      .run = run};
}

}  // namespace maglev::verbs::tell
