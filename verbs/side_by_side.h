#pragma once
// Runs in processes of their own beside each other: how many, and what signals tell them.

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/algo/experiment.h"

namespace maglev {

struct SideBySide {
  int64_t at_once;  ///< at least 1
  int64_t threads;  ///< of each
  /// Of which each run sees one, as CUDA_VISIBLE_DEVICES names them; empty: each sees all there are.
  std::vector<std::string> gpus = {};
};

/// Throws Error where runs like it are of several machines, which are not side by side.
void expect_one_machine(const Experiment& experiment);
/// How many of at most `runs` runs of the experiment the machine holds at once: as many as it has
/// threads and memory for, on GPUs one each. Runs do not depend on how many threads they have: side
/// by side none waits for another.
SideBySide side_by_side(const Experiment& experiment, int64_t runs);
/// SideBySide::gpus for runs of `processes` processes with the setting `device`, where `seen` are
/// seen and `visible` is CUDA_VISIBLE_DEVICES (null: it is not set). Empty where there is nothing to
/// deal out: fewer than two, one that was named, or runs that take several themselves.
std::vector<std::string> gpus_to_deal(const std::string& device, int64_t processes, int seen,
                                      const char* visible);
/// The one of `gpus` that the fewest of `held` are, the first of these; "" of none.
std::string next_gpu(const std::vector<std::string>& gpus, const std::vector<std::string>& held);

/// What people read where a signal has come and runs have yet to end.
inline constexpr const char* kStopping =
    "asked to stop: each run ends its iteration first and saves; asked once more they leave at "
    "once, without";

/// Catches SIGINT, SIGTERM, SIGQUIT, SIGHUP (unless it is ignored: nohup), SIGXCPU, SIGUSR1 and
/// SIGUSR2 while it lives: the parent hears of them first and passes each on as what it is,
/// requests to end once each (EndRequests). SIGPIPE is ignored: runs go on where nobody reads what
/// is said of them. One at a time.
class PassedSignals {
 public:
  PassedSignals();
  ~PassedSignals();
  PassedSignals(const PassedSignals&) = delete;
  PassedSignals& operator=(const PassedSignals&) = delete;

  /// One came that ends runs.
  bool ending() const;
  /// As if SIGINT had come.
  void end();
  /// Calls `tell` with each that came since.
  void pass_on(const std::function<void(int signal)>& tell);

 private:
  static constexpr size_t kCaught = 7;
  struct sigaction before_[kCaught];
  void (*pipe_before_)(int);
  int passed_on_[NSIG] = {};
};

}  // namespace maglev
