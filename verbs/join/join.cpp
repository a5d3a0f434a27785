// maglev join: this machine's part of a run that another one began.

#include <csignal>
#include <cstdio>
#include <unistd.h>

#include "engine/host/machine.h"
#include "engine/train/signals.h"
#include "engine/train/training_run.h"
#include "verbs/arguments.h"
#include "verbs/verb.h"

namespace maglev::verbs::join {

VerbEntry entry();

namespace {

constexpr double kMostPatience = 7 * 24 * 3600;
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGXCPU, SIGUSR1, SIGUSR2};

// how a run ends is for the machine that began it to say: batch systems signal all at once
volatile std::sig_atomic_t asked_to_leave = 0;
EndRequests end_requests;

void on_signal(int signal) {
  constexpr char kText[] =
      "\nmaglev: this machine stays in the run: Ctrl-C where it was begun saves it and ends it. "
      "Ctrl-C here once more leaves, and ends it without a save\n";
  if (signal != SIGINT && signal != SIGTERM && signal != SIGQUIT) return;
  const bool is_new = end_requests.is_new();
  if (asked_to_leave && is_new && signal == SIGINT) _exit(128 + signal);
  if (asked_to_leave) return;
  asked_to_leave = 1;
  if (write(STDERR_FILENO, kText, sizeof kText - 1) < 0) _exit(128 + signal);
}

// before it has a part in the run a signal ends this as any program
void heed_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (const int signal : kSignals) sigaction(signal, &action, nullptr);
}

void say(const std::string& line) {
  std::printf("maglev: %s\n", line.c_str());
  std::fflush(stdout);
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(
      entry(), words,
      {.flags = {{"--wait", "TIME",
                  "for the run to begin to listen, e.g. 60s or 10m (default 10m)"}},
       .least = 1,
       .most = 1,
       .names = "HOST:PORT"});
  if (arguments.help()) return arguments.print_help();
  claim_threads();
  JoinRequest request{.address = arguments.positional()[0],
                      .process = {"/proc/self/exe", "train", "--process"},
                      .say = say,
                      .begun = heed_signals};
  if (const auto wait = arguments.seconds("--wait", 0, kMostPatience)) request.patience_s = *wait;
  return train_machine(request) ? 0 : 1;
}

}  // namespace

VerbEntry entry() {
  return {.name = "join",
          .summary = "have this machine take part in a run that waits for it",
          .usage = "join HOST:PORT [--wait TIME]",
          .run = run};
}

}  // namespace maglev::verbs::join
