// maglev join: this machine's part of a run that another one began.

#include <csignal>
#include <cstdio>
#include <iterator>
#include <unistd.h>

#include "engine/host/machine.h"
#include "engine/train/training_run.h"
#include "verbs/arguments.h"
#include "verbs/verb.h"

namespace maglev::verbs::join {

VerbEntry entry();

namespace {

constexpr double kPatience = 600, kMostPatience = 7 * 24 * 3600;
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

// how a run ends is for the machine that began it to say: batch systems signal all at once
volatile std::sig_atomic_t asked_to_leave = 0;
void on_signal(int signal) {
  constexpr char kText[] =
      "\nmaglev: the run is saved and ended where it was begun; once more, and this machine leaves "
      "it at once\n";
  if (signal != SIGINT) return;
  if (asked_to_leave) _exit(128 + signal);
  asked_to_leave = 1;
  if (write(STDERR_FILENO, kText, sizeof kText - 1) < 0) _exit(128 + signal);
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(
      entry(), words,
      {.flags = {{"--wait", "TIME", "for the run to begin, e.g. 60s or 10m (default 10m)"}},
       .least = 1,
       .most = 1,
       .names = "HOST:PORT"});
  if (arguments.help()) return arguments.print_help();
  claim_threads();
  const double patience = arguments.seconds("--wait", 0, kMostPatience).value_or(kPatience);
  const auto say = [](const std::string& line) {
    // while nobody has a part in a run, a signal ends this as any program
    struct sigaction action {};
    action.sa_handler = on_signal;
    for (const int signal : kSignals) sigaction(signal, &action, nullptr);
    std::printf("maglev: %s\n", line.c_str());
    std::fflush(stdout);
  };
  const bool well = train_machine(arguments.positional()[0],
                                  {"/proc/self/exe", "train", "--process"}, patience, say);
  return well ? 0 : 1;
}

}  // namespace

VerbEntry entry() {
  return {.name = "join",
          .summary = "have this machine take part in a run that waits for it",
          .usage = "join HOST:PORT [--wait TIME]",
          .run = run};
}

}  // namespace maglev::verbs::join
