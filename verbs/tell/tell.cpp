// maglev tell: what signals do, by the folder of what trains in place of a process's number.

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <span>
#include <thread>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/find.h"
#include "base/core/printed.h"
#include "engine/run/run_dir.h"
#include "engine/run/several_runs.h"
#include "engine/train/signals.h"
#include "verbs/arguments.h"
#include "verbs/notes.h"
#include "verbs/train/seed_runs.h"
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

bool is_held(const std::string& lock) { return path_exists(lock) && FileLock::held(lock); }

// files that are locked while something in the folder is trained: the run's, the one of the group of
// seeds or, of seeds that go on by themselves, their own, those of a sweep's trials and of what
// confirms its best
std::vector<std::string> locks_of(const std::string& folder) {
  std::vector<std::string> locks;
  if (is_seeds(folder)) {
    locks = {folder + "/seeds.lock"};
    if (!is_held(locks[0]))
      for (const std::string& run : train::seed_runs(folder)) locks.push_back(run + "/run.lock");
  } else if (is_sweep(folder)) {
    locks = {folder + "/confirm.lock"};
    for (const std::string& trial : list_dir(folder + "/trials"))
      locks.push_back(folder + "/trials/" + trial + "/trial.lock");
  } else {
    locks = {folder + "/run.lock"};
  }
  std::erase_if(locks, [](const std::string& lock) { return !is_held(lock); });
  return locks;
}

// whether it has come to where signals are heard: they are caught together
bool hears(int process) {
  constexpr const char* kCaught = "SigCgt:";
  const std::string status = read_file("/proc/" + std::to_string(process) + "/status", 1 << 16);
  const size_t at = status.find(kCaught);
  if (at == status.npos) return true;
  const uint64_t caught = std::strtoull(status.c_str() + at + std::strlen(kCaught), nullptr, 16);
  return caught >> (SIGUSR1 - 1) & 1;
}

// whether there was such a process
bool send(int process, int signal) {
  const sigval asked{.sival_int = kAskedByName};
  if (::sigqueue(process, signal, asked) == 0) return true;
  if (errno == ESRCH) return false;
  throw Error("[tell] process " + std::to_string(process) +
              " cannot be told: " + std::strerror(errno));
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
  if (locks.empty())
    throw Error("[tell] " + folder + " is not being trained now" + state_of(folder));
  std::map<int, std::vector<std::string>> holders;
  size_t elsewhere = 0;
  for (const std::string& lock : locks)
    if (const auto holder = FileLock::holder(lock)) holders[*holder].push_back(lock);
    else ++elsewhere;
  if (holders.empty())
    throw Error(
        "[tell] " + folder +
        " is trained on another machine, in a container or by somebody else: tell it there");
  for (const auto& [process, held] : holders) {
    if (!hears(process))
      throw Error("[tell] process " + std::to_string(process) + " of " + folder +
                  " begins or ends just now, and would not hear it: ask again");
    if (send(process, word.signal)) std::printf("process %d %s\n", process, word.then);
  }
  if (elsewhere > 0)
    print_notes({counted(int64_t(elsewhere), "part") + " of " + folder +
                 " is trained on another machine or by somebody else, and was not told"});
  // what nobody was told of goes on
  for (const auto& [process, held] : holders)
    while (arguments.has("--wait") && std::ranges::any_of(held, is_held))
      std::this_thread::sleep_for(kPoll);
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
          "and SIGUSR2 do;\n  told again to stop it ends no sooner (a second SIGTERM leaves at "
          "once, "
          "without a save)",
      .run = run};
}

}  // namespace maglev::verbs::tell
