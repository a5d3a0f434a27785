#pragma once
// Where spans go while a window is open: each thread has a buffer of its own, of fixed size, that
// it alone writes and the owner of the tracer alone empties. Nobody waits for anybody; what finds
// no room is counted and dropped.
// Threads: begin_stage() and end_span() by any; everything else by one, the owner's. A tracer lives
// longer than every thread that records.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/trace/counters.h"
#include "base/trace/span.h"

namespace maglev::trace {

/// What one thread recorded, in the order the spans ended.
struct ThreadSpans {
  int64_t tid = 0;   ///< the system's
  std::string name;  ///< of the thread
  std::vector<SpanRecord> spans;
  std::vector<Counts> counts = {};  ///< of stages, where SpanRecord::counts says
};

/// What was recorded from start() on.
struct Recording {
  int64_t begin_ns = 0, end_ns = 0;  ///< CLOCK_MONOTONIC
  int64_t realtime_ns = 0;           ///< CLOCK_REALTIME - CLOCK_MONOTONIC when it began
  int64_t realtime_end_ns = 0;       ///< and when it ended
  int64_t dropped = 0;               ///< spans there was no room for
  double span_cost_s = 0;            ///< what a span costs the thread that records it, measured
  double counting_cost_s = 0;        ///< and a stage that counts besides: two readings
  double drain_s = 0;                ///< what emptying buffers took
  std::vector<ThreadSpans> threads;

  size_t spans() const;
  /// Seconds that recording cost the thread it cost the most.
  double overhead_s() const;
};

/// A ring that one thread writes and another empties.
class SpanRing {
 public:
  /// `capacity`: a power of two. `read`: the counters of the writer; empty: none are read.
  SpanRing(size_t capacity, int64_t tid, std::string name, ReadCounts read);

  /// By the writer, as a stage begins. Stages of a thread end in the reverse order.
  void begin_counting() noexcept;
  /// What was counted since the last begin_counting() that was not ended; false: nothing was.
  bool end_counting(Counts& counts) noexcept;

  /// By the writer. An eighth of the room is kept for stages, which end after all that is within
  /// them. False where there was none. `counts` of the span; null: none.
  bool push(const SpanRecord& span, const Counts* counts = nullptr);
  /// By the reader: those that are there now, oldest first, and no longer. `take(span, counts)`.
  template <class Take>
  void drain(const Take& take) {
    const uint64_t head = head_.load(std::memory_order_acquire);
    uint64_t tail = tail_.load(std::memory_order_relaxed);
    for (; tail != head; ++tail) {
      const SpanRecord& span = slots_[tail & (capacity_ - 1)];
      take(span, span.counts ? &counts_[tail & (capacity_ - 1)] : nullptr);
    }
    tail_.store(tail, std::memory_order_release);
  }

  int64_t tid() const { return tid_; }
  const std::string& name() const { return name_; }

 private:
  size_t capacity_;
  std::unique_ptr<SpanRecord[]> slots_;
  std::unique_ptr<Counts[]> counts_;  ///< beside the slots; null: nothing is counted
  int64_t tid_;
  std::string name_;
  ReadCounts read_;
  static constexpr size_t kDeepest = 64;
  std::array<Counts, kDeepest> begun_;  ///< readings of stages that are open, the innermost last
  std::array<bool, kDeepest> sound_{};  ///< whether there was one
  size_t depth_ = 0;                    ///< stages that are open
  alignas(64) std::atomic<uint64_t> head_{0};
  alignas(64) std::atomic<uint64_t> tail_{0};
};

class Tracer {
 public:
  static constexpr size_t kSpansPerThread = 1 << 16;
  static constexpr size_t kMostThreads = 256;

  /// `capacity`: spans a thread can record between two drain(), a power of two; `most`: spans of a
  /// recording.
  /// `counters`: what stages count; without `open` they count nothing.
  explicit Tracer(size_t most, size_t capacity = kSpansPerThread, CounterSource counters = {});
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  /// From here on spans that begin are recorded. False, and nothing happens, while another tracer
  /// of this process records.
  bool start();
  /// Takes what threads have recorded so far out of their buffers.
  void drain();
  /// What was recorded since start(), or since the last take().
  Recording take();
  /// Spans that begin are recorded no more.
  void stop();
  bool recording_now() const { return recording_; }

  /// By any thread: a stage begins, which end_span() ends.
  void begin_stage() noexcept;
  /// By any thread: the span ends now.
  void end_span(SpanRecord span) noexcept;

 private:
  SpanRing* ring_of_this_thread() noexcept;
  void empty();
  void begin_recording();
  double measured_cost(Category category);

  const size_t most_, capacity_;
  const CounterSource counters_;
  const uint64_t id_;  ///< no other tracer of this process has it
  bool recording_ = false;
  Recording taken_;
  size_t held_ = 0;  ///< spans of taken_
  std::atomic<size_t> threads_{0};
  std::array<std::atomic<SpanRing*>, kMostThreads> rings_{};
  std::atomic<int64_t> dropped_{0};
};

}  // namespace maglev::trace
