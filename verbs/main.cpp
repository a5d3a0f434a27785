// The program: finds the verb and turns errors into one line and an exit status.

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <new>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/find.h"
#include "base/simd/targets.h"
#include "engine/host/build_text.h"
#include "engine/trace/nvtx.h"
#include "engine/train/signals.h"
#include "verbs/verb.h"

namespace {

using maglev::VerbEntry;

// what users of other libraries type, and what it is here
constexpr std::pair<const char*, const char*> kOtherVerbs[] = {
    {"enjoy", "play RUN"},
    {"show", "play RUN"},
    {"render", "play RUN --record game.mp4"},
    {"evaluate", "eval RUN"},
    {"learn", "train ALGORITHM ENVIRONMENT"},
    {"resume", "train --resume RUN"},
    {"continue", "train --resume RUN"},
    {"benchmark", "bench"},
    {"report", "study judge RUN ... --report FILE.md, of Goodhart; of any runs compare RUN RUN"},
    {"brain-view", "play RUN --web"},
    {"parallel-stats", "watch runs"},
    {"tensorboard", "watch runs, or tensorboard --logdir runs"},
};

void print_help() {
  std::printf("usage: maglev <command> [arguments]\n\n");
  for (const VerbEntry& verb : maglev::verb_table())
    std::printf("  %-10s %s\n", verb.name, verb.summary);
  std::printf("\nmaglev <command> --help explains a command; maglev --version names this build.\n");
}

int run(const std::vector<std::string>& arguments) {
  const std::string first = arguments.empty() ? "help" : arguments[0];
  if (first == "--version") {
    std::printf("%s\n", maglev::build_text().c_str());
    return 0;
  }
  const bool helps = first == "--help" || first == "-h" || first == "help";
  if (helps && arguments.size() < 2) {
    print_help();
    return 0;
  }
  // what only others call so: a plug-in may have a command of such a name
  if (std::ranges::find(maglev::verb_table(), first, &VerbEntry::name) ==
      maglev::verb_table().end())
    for (const auto& [theirs, ours] : kOtherVerbs)
      if (first == theirs)
        throw maglev::Error("[command line] '" + first + "' is maglev " + ours + " here");
  // `help train` is `train --help`
  const VerbEntry& verb =
      maglev::find_row(maglev::verb_table(), helps ? arguments[1] : first, "", "command");
  if (helps) return verb.run({"--help"});
  if (!verb.limits_simd) maglev::limit_simd();
  return verb.run({arguments.begin() + 1, arguments.end()});
}

// A closed descriptor is the next file's: what is printed would go into a run's metrics, or into a
// checkpoint. It is taken so that it fails as a closed one does.
void take_closed_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

// what was printed arrived: a full disk is noticed only when the last of it is written
int flushed(int status) {
  errno = 0;
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return status;
  throw maglev::Error("[output] standard output cannot be written: " +
                      std::string(std::strerror(errno ? errno : EIO)));
}

// The exit status of a command; errors are told in one line.
int answer(const std::vector<std::string>& arguments) {
  try {
    maglev::tell_nvtx();
    return flushed(run(arguments));
  } catch (const maglev::Error& e) {
    std::fprintf(stderr, "maglev: %s\n", e.what());
    return 2;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr,
                 "maglev: [memory] the system does not give what is asked for; ask for less, or "
                 "raise the limits of this process (ulimit -v)\n");
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "maglev: internal error: %s\n", e.what());
    return 70;
  }
}

// Ends the process at once: taking libtorch's tables of operators apart is a third of what a short
// command takes, and nothing here waits for it. Sanitizers, and profilers that another program put
// into this one, write their reports while a process ends in the usual way.
[[noreturn]] void end(int status) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  if (!std::getenv("LD_PRELOAD") && !std::getenv("CUDA_INJECTION64_PATH")) {
    std::fflush(nullptr);
    ::_exit(status);
  }
#endif
  std::exit(status);
}

}  // namespace

int main(int argc, char** argv) {
  // a parent that ignores it hands that down, and then nobody is told how children end
  std::signal(SIGCHLD, SIG_DFL);
  // a save or a trace that is asked for before a run listens ends nothing
  std::signal(SIGUSR1, SIG_IGN);
  std::signal(SIGUSR2, SIG_IGN);
  // a reader that has seen enough (| head) ends what prints for it, also behind a launcher that
  // ignores this; what trains or serves looks after itself
  std::signal(SIGPIPE, SIG_DFL);
  take_closed_descriptors();
  maglev::expect_late_signals();
  end(answer({argv + 1, argv + argc}));
}
