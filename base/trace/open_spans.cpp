#include "base/trace/open_spans.h"

#include <algorithm>
#include <fstream>
#include <unistd.h>

namespace maglev::trace {
namespace {

// a thread's name by the system; empty: it has ended
std::string name_of_thread(int64_t tid) {
  if (tid == getpid()) return "main";
  std::ifstream file("/proc/self/task/" + std::to_string(tid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

}  // namespace

constinit std::array<OpenSpans, OpenSpans::kMostThreads + 1> OpenSpans::rows_{};

OpenSpans* OpenSpans::claim() {
  // what a thread leaves behind when it ends
  struct Leaves {
    ~Leaves() { leave(); }
  };
  of_thread_ = &rows_.back();
  for (size_t i = 0; i < kMostThreads; ++i) {
    int64_t free = 0;
    if (rows_[i].tid_.load(std::memory_order_relaxed) != 0 ||
        !rows_[i].tid_.compare_exchange_strong(free, gettid()))
      continue;
    of_thread_ = &rows_[i];
    static thread_local const Leaves leaves;
    break;
  }
  return of_thread_;
}

void OpenSpans::leave() {
  of_thread_->tid_.store(0, std::memory_order_release);
  // a span that a later destructor of the thread has is nobody's
  of_thread_ = &rows_.back();
}

std::vector<ThreadNow> threads_now() {
  std::vector<ThreadNow> threads;
  for (size_t i = 0; i < OpenSpans::kMostThreads; ++i) {
    const OpenSpans& row = OpenSpans::rows_[i];
    ThreadNow now{.tid = row.tid_.load(std::memory_order_acquire)};
    if (now.tid == 0 || (now.name = name_of_thread(now.tid)).empty()) continue;
    const size_t depth =
        std::min<size_t>(row.depth_.load(std::memory_order_acquire), OpenSpans::kDeepest);
    for (size_t d = 0; d < depth; ++d)
      now.open.push_back(row.names_[d].load(std::memory_order_relaxed));
    threads.push_back(std::move(now));
  }
  std::ranges::stable_partition(threads, [](const ThreadNow& t) { return t.tid == getpid(); });
  return threads;
}

uint64_t spans_passed() {
  uint64_t passed = 0;
  for (const OpenSpans& row : OpenSpans::rows_)
    passed += row.passed_.load(std::memory_order_relaxed);
  return passed;
}

}  // namespace maglev::trace
