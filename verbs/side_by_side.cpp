#include "verbs/side_by_side.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "base/core/error.h"
#include "base/core/split.h"
#include "engine/host/machine.h"
#include "engine/train/memory_plan.h"
#include "engine/train/signals.h"

namespace maglev {
namespace {

constexpr int64_t kProcessBytes = int64_t(400) << 20;  // of a process beside what its run holds

// those that end runs come first
constexpr int kPassed[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGXCPU, SIGUSR1, SIGUSR2};
constexpr size_t kEnding = 5;
// how often each came, by its number
volatile std::sig_atomic_t seen[NSIG] = {};
EndRequests end_requests;

bool ends(int signal) { return std::find(kPassed, kPassed + kEnding, signal) != kPassed + kEnding; }
bool any_ends() {
  return std::any_of(kPassed, kPassed + kEnding, [](int signal) { return seen[signal] > 0; });
}

void on_passed_signal(int signal, siginfo_t* from, void*) {
  // one request is passed on once
  if (ends(signal) && (from && asked_by_name(*from) ? any_ends() : !end_requests.is_new())) return;
  seen[signal] = seen[signal] + 1;
}

}  // namespace

void expect_one_machine(const Experiment& experiment) {
  if (experiment.run.machines > 1)
    throw Error("[machines] runs side by side are of one machine each; leave machines out");
}

SideBySide side_by_side(const Experiment& experiment, int64_t runs) {
  expect_one_machine(experiment);
  const Placement placement = place(experiment.run.device, experiment.run.threads);
  const int64_t processes = experiment.run.processes;
  std::vector<std::string> gpus;
  int64_t at_once = std::min<int64_t>(runs, placement.threads / processes);
  if (placement.device.is_cuda()) {
    gpus = gpus_to_deal(experiment.run.device, processes, seen_devices().cuda,
                        std::getenv("CUDA_VISIBLE_DEVICES"));
    at_once = std::min<int64_t>(runs, std::ssize(gpus));
  } else if (const MemoryPlan memory = plan_memory(experiment, placement); memory.limit > 0) {
    at_once = std::min(at_once, memory.limit / (memory.total() + kProcessBytes));
  }
  at_once = std::max<int64_t>(1, at_once);
  // whole ones for each process of a run
  const int64_t threads = placement.threads / at_once;
  return {.at_once = at_once,
          .threads = std::max(processes, threads - threads % processes),
          .gpus = std::move(gpus)};
}

std::vector<std::string> gpus_to_deal(const std::string& device, int64_t processes, int seen,
                                      const char* visible) {
  if (seen < 2 || processes > 1 || (device != "auto" && device != "cuda")) return {};
  std::vector<std::string> gpus;
  if (visible) gpus = split_list(visible, "CUDA_VISIBLE_DEVICES");
  else
    for (int i = 0; i < seen; ++i) gpus.push_back(std::to_string(i));
  // behind the first that is none the driver reads no further
  gpus.resize(std::min(gpus.size(), size_t(seen)));
  return gpus;
}

std::string next_gpu(const std::vector<std::string>& gpus, const std::vector<std::string>& held) {
  const auto next = std::ranges::min_element(
      gpus, {}, [&](const std::string& gpu) { return std::ranges::count(held, gpu); });
  return next == gpus.end() ? "" : *next;
}

PassedSignals::PassedSignals() {
  static_assert(std::size(kPassed) == kCaught);
  end_requests.forget();
  pipe_before_ = std::signal(SIGPIPE, SIG_IGN);
  struct sigaction action {};
  action.sa_sigaction = on_passed_signal;
  action.sa_flags = SA_SIGINFO;
  for (size_t i = 0; i < kCaught; ++i) {
    seen[kPassed[i]] = 0;
    sigaction(kPassed[i], &action, &before_[i]);
    // nohup
    if (kPassed[i] == SIGHUP && before_[i].sa_handler == SIG_IGN)
      sigaction(SIGHUP, &before_[i], nullptr);
  }
}

PassedSignals::~PassedSignals() {
  for (size_t i = 0; i < kCaught; ++i) sigaction(kPassed[i], &before_[i], nullptr);
  std::signal(SIGPIPE, pipe_before_);
}

bool PassedSignals::ending() const { return any_ends(); }

void PassedSignals::end() { on_passed_signal(SIGINT, nullptr, nullptr); }

void PassedSignals::pass_on(const std::function<void(int signal)>& tell) {
  for (int signal : kPassed)
    for (; passed_on_[signal] < seen[signal]; ++passed_on_[signal]) tell(signal);
}

}  // namespace maglev
