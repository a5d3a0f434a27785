#pragma once
// Spans: what a thread did, from when to when. A span is a local variable:
//
//   const auto span = trace::stage("collect");
//
// It is told to the Tracer that records and to the profiler that asked for ranges, if there are
// such. While there is none, which is nearly always, a span is one relaxed load and a branch beside
// its name in the thread's row of OpenSpans.
//
// Why a pointer for the whole process, where style forbids global state: time is spent in pools, in
// kernels and in threads of their own, and a tracer handed down to all of them would be an argument
// of every function there is. The pointer owns nothing and no result depends on it. A run owns its
// Tracer, which lives longer than all threads of the run, and is named here while it records; two
// that record at once are refused.

#include <atomic>
#include <cstdint>

#include "base/trace/open_spans.h"

namespace maglev::trace {

class Tracer;

/// The one that records; null: none does.
inline std::atomic<Tracer*> recording{nullptr};

/// Who hears of spans that begin: bits of `listeners`, which is 0 nearly always.
enum Listener : uint8_t { kTracer = 1, kRanges = 2 };
inline std::atomic<uint8_t> listeners{0};

/// What a span's time went to, as the file's "cat" says.
enum class Category : uint8_t { stage, wait, copy, kernel_cpu, graph };

/// A span that has ended. All text is static.
struct SpanRecord {
  const char* name;
  const char* text;          ///< wait: on what; copy: direction; graph: phases; else null
  int64_t begin_ns, end_ns;  ///< CLOCK_MONOTONIC
  int64_t first;   ///< stage: step; copy: bytes; kernel_cpu: operations; negative: not known
  int64_t second;  ///< copy: 1 where host memory is pageable; kernel_cpu: bytes
  Category category;
  uint32_t counts = 0;  ///< 1 + place in its thread's counts; 0: nothing was counted
};

/// A profiler of somebody else's that is told of spans as they begin and end, on their threads and
/// one within the other.
struct RangeListener {
  void (*begin)(const SpanRecord& span);
  void (*end)();
};
/// From here on, for as long as the process lives.
void tell_ranges_to(const RangeListener* profiler);

/// Names the calling thread, for traces, debuggers and top: at most 15 bytes.
void name_thread(const char* name);

/// Nanoseconds of CLOCK_MONOTONIC, which std::chrono::steady_clock reads too.
int64_t now_ns();

class ScopedSpan {
 public:
  ScopedSpan(Category category, const char* name, const char* text = nullptr, int64_t first = -1,
             int64_t second = -1)
      : open_(OpenSpans::mine()) {
    open_->begin(name);
    if (listeners.load(std::memory_order_relaxed) == 0) return;
    begin({name, text, 0, 0, first, second, category});
  }
  ~ScopedSpan() {
    open_->end();
    if (tracer_ || ranges_) end();
  }
  ScopedSpan(const ScopedSpan&) = delete;
  ScopedSpan& operator=(const ScopedSpan&) = delete;

 private:
  void begin(const SpanRecord& span);
  void end();

  OpenSpans* open_;                        ///< of the thread
  Tracer* tracer_ = nullptr;               ///< that recorded when it began
  const RangeListener* ranges_ = nullptr;  ///< that were told that it began
  SpanRecord span_;  ///< not set without a tracer: nothing is written while nobody records
};

/// A stage of the iteration. `step`: environment steps done before it, where that is told.
inline ScopedSpan stage(const char* name, int64_t step = -1) {
  return {Category::stage, name, nullptr, step};
}
/// The thread waits; on: pool, lock, device, io, replay or processes.
inline ScopedSpan wait(const char* name, const char* on) { return {Category::wait, name, on}; }
/// direction: HtoD, DtoH, DtoD or HtoH.
inline ScopedSpan copy(const char* name, int64_t bytes, const char* direction, bool pageable) {
  return {Category::copy, name, direction, bytes, pageable};
}
/// A fused kernel on this processor, with the operations and bytes it takes where they are known.
inline ScopedSpan kernel(const char* name, int64_t flops = -1, int64_t bytes = -1) {
  return {Category::kernel_cpu, name, nullptr, flops, bytes};
}
/// A captured graph is handed to the device, in place of `phases` (names by commas).
inline ScopedSpan graph(const char* phases) { return {Category::graph, phases, phases}; }

}  // namespace maglev::trace
