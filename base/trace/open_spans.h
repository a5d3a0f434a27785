#pragma once
// The spans each thread is in now, kept whether anybody records or not, for who asks from outside
// why nothing goes on. A thread has a row of its own: a span that begins and ends writes four words
// there. Threads: begin() and end() by the row's own; everything else by any.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace maglev::trace {

class alignas(64) OpenSpans {
 public:
  static constexpr size_t kDeepest = 16;  ///< names that are kept; deeper ones are counted
  static constexpr size_t kMostThreads = 256;

  /// The calling thread's, until it ends. Where more threads have some they share one that nobody
  /// reads.
  static OpenSpans* mine() {
    OpenSpans* row = of_thread_;
    return row ? row : claim();
  }

  void begin(const char* name) {
    const uint32_t depth = depth_.load(std::memory_order_relaxed);
    if (depth < kDeepest) names_[depth].store(name, std::memory_order_relaxed);
    depth_.store(depth + 1, std::memory_order_release);
    pass();
  }
  void end() {
    depth_.store(depth_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
    pass();
  }

 private:
  friend std::vector<struct ThreadNow> threads_now();
  friend uint64_t spans_passed();

  static OpenSpans* claim();
  // the row is free for another thread
  static void leave();
  void pass() {
    passed_.store(passed_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  static std::array<OpenSpans, kMostThreads + 1> rows_;  ///< the last is shared
  static inline constinit thread_local OpenSpans* of_thread_ = nullptr;

  std::array<std::atomic<const char*>, kDeepest> names_{};
  std::atomic<uint32_t> depth_{0};
  std::atomic<uint64_t> passed_{0};  ///< begins and ends, of all threads that had the row
  std::atomic<int64_t> tid_{0};      ///< 0: no thread has it
};

/// What a thread is in at the moment of asking.
struct ThreadNow {
  int64_t tid = 0;
  std::string name;               ///< as traces name it
  std::vector<const char*> open;  ///< from the outside in; empty: in no span
};
/// Of all threads that have had a span and live, the main one first.
std::vector<ThreadNow> threads_now();

/// Begins and ends of spans in this process so far: where it stands still, nothing goes on.
uint64_t spans_passed();

/// While one lives its thread waits for what may be silent for long, and tells people so itself:
/// nobody else is to.
class ReportsOwnWait {
 public:
  ReportsOwnWait() { count_.fetch_add(1, std::memory_order_relaxed); }
  ~ReportsOwnWait() { count_.fetch_sub(1, std::memory_order_relaxed); }
  ReportsOwnWait(const ReportsOwnWait&) = delete;
  ReportsOwnWait& operator=(const ReportsOwnWait&) = delete;

  /// Whether a thread of this process does.
  static bool any() { return count_.load(std::memory_order_relaxed) > 0; }

 private:
  static inline std::atomic<int64_t> count_{0};
};

}  // namespace maglev::trace
