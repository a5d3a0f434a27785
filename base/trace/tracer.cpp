#include "base/trace/tracer.h"

#include <algorithm>
#include <ctime>
#include <exception>
#include <new>
#include <pthread.h>
#include <unistd.h>
#include <utility>

namespace maglev::trace {
namespace {

std::atomic<uint64_t> tracers{0};
std::atomic<const RangeListener*> ranges{nullptr};

// the buffer this thread has in the tracer it last recorded to
struct Place {
  uint64_t tracer = 0;
  SpanRing* ring = nullptr;
};
thread_local Place place;

int64_t clock_ns(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return int64_t(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

// how far CLOCK_REALTIME is ahead: the reading whose neighbours lie closest together
int64_t realtime_ahead_ns() {
  int64_t ahead = 0, closest = INT64_MAX;
  for (int i = 0; i < 5; ++i) {
    const int64_t before = now_ns(), realtime = clock_ns(CLOCK_REALTIME), after = now_ns();
    if (after - before >= closest) continue;
    closest = after - before;
    ahead = realtime - (before + closest / 2);
  }
  return ahead;
}

std::string name_of_this_thread() {
  char name[32] = {};
  if (gettid() == getpid()) return "main";
  pthread_getname_np(pthread_self(), name, sizeof name);
  return name;
}

}  // namespace

void name_thread(const char* name) { pthread_setname_np(pthread_self(), name); }

int64_t now_ns() { return clock_ns(CLOCK_MONOTONIC); }

void tell_ranges_to(const RangeListener* profiler) {
  ranges.store(profiler, std::memory_order_release);
  listeners.fetch_or(kRanges, std::memory_order_release);
}

void ScopedSpan::begin(const SpanRecord& span) {
  ranges_ = ranges.load(std::memory_order_acquire);
  if (ranges_) ranges_->begin(span);
  // whoever stored the pointer had made the tracer
  tracer_ = recording.load(std::memory_order_acquire);
  if (!tracer_) return;
  span_ = span;
  span_.begin_ns = now_ns();
  if (span.category == Category::stage) tracer_->begin_stage();
}

void ScopedSpan::end() {
  if (tracer_) tracer_->end_span(span_);
  if (ranges_) ranges_->end();
}

size_t Recording::spans() const {
  size_t count = 0;
  for (const ThreadSpans& thread : threads) count += thread.spans.size();
  return count;
}

double Recording::overhead_s() const {
  double most = 0;
  for (const ThreadSpans& thread : threads)
    most = std::max(most, double(thread.spans.size()) * span_cost_s +
                              double(thread.counts.size()) * counting_cost_s);
  return most + drain_s;
}

SpanRing::SpanRing(size_t capacity, int64_t tid, std::string name, ReadCounts read)
    : capacity_(capacity),
      slots_(std::make_unique_for_overwrite<SpanRecord[]>(capacity)),
      tid_(tid),
      name_(std::move(name)),
      read_(std::move(read)) {
  if (read_) counts_ = std::make_unique_for_overwrite<Counts[]>(capacity);
}

void SpanRing::begin_counting() noexcept {
  if (!read_) return;
  if (depth_ < kDeepest) sound_[depth_] = read_(begun_[depth_]);
  ++depth_;
}

bool SpanRing::end_counting(Counts& counts) noexcept {
  // one that began before the ring was made has no beginning here
  if (!read_ || depth_ == 0) return false;
  --depth_;
  Counts now;
  if (depth_ >= kDeepest || !sound_[depth_] || !read_(now)) return false;
  counts = counted_between(begun_[depth_], now);
  return true;
}

bool SpanRing::push(const SpanRecord& span, const Counts* counts) {
  const uint64_t head = head_.load(std::memory_order_relaxed);
  const uint64_t used = head - tail_.load(std::memory_order_acquire);
  const size_t kept = span.category == Category::stage ? 0 : capacity_ / 8;
  if (used + kept >= capacity_) return false;
  slots_[head & (capacity_ - 1)] = span;
  if (counts) counts_[head & (capacity_ - 1)] = *counts;
  head_.store(head + 1, std::memory_order_release);
  return true;
}

Tracer::Tracer(size_t most, size_t capacity, CounterSource counters)
    : most_(most),
      capacity_(capacity),
      counters_(std::move(counters)),
      id_(tracers.fetch_add(1) + 1) {}

Tracer::~Tracer() {
  stop();
  for (auto& ring : rings_) delete ring.load();
}

bool Tracer::start() {
  if (recording_) return true;
  Tracer* nobody = nullptr;
  if (recording.load() != nullptr) return false;
  // what threads recorded behind the end of the last window is of no window
  empty();
  taken_ = {};
  begin_recording();
  if (!recording.compare_exchange_strong(nobody, this)) return false;
  listeners.fetch_or(kTracer, std::memory_order_release);
  recording_ = true;
  taken_.span_cost_s = measured_cost(Category::wait);
  if (counters_.open)
    taken_.counting_cost_s = std::max(0., measured_cost(Category::stage) - taken_.span_cost_s);
  return true;
}

void Tracer::begin_recording() {
  taken_.begin_ns = now_ns();
  taken_.realtime_ns = realtime_ahead_ns();
  held_ = 0;
  dropped_.store(0, std::memory_order_relaxed);
}

// spans whose record is taken back at once: what one costs here and now
double Tracer::measured_cost(Category category) {
  constexpr int kSpans = 32;
  constexpr int kTimes = 5;
  SpanRing* ring = ring_of_this_thread();
  if (!ring) return 0;
  int64_t least = INT64_MAX;
  for (int time = 0; time < kTimes; ++time) {
    const int64_t begin = now_ns();
    for (int i = 0; i < kSpans; ++i) const ScopedSpan span(category, "cost");
    least = std::min(least, now_ns() - begin);
    ring->drain([](const SpanRecord&, const Counts*) {});
  }
  return 1e-9 * double(least) / kSpans;
}

void Tracer::empty() {
  const size_t count = std::min(threads_.load(std::memory_order_acquire), kMostThreads);
  for (size_t i = 0; i < count; ++i)
    if (SpanRing* ring = rings_[i].load(std::memory_order_acquire))
      ring->drain([](const SpanRecord&, const Counts*) {});
}

void Tracer::drain() {
  const int64_t begin = now_ns();
  const size_t count = std::min(threads_.load(std::memory_order_acquire), kMostThreads);
  taken_.threads.resize(std::max(taken_.threads.size(), count));
  for (size_t i = 0; i < count; ++i) {
    SpanRing* ring = rings_[i].load(std::memory_order_acquire);
    if (!ring) continue;
    ThreadSpans& thread = taken_.threads[i];
    if (thread.tid == 0) thread.tid = ring->tid(), thread.name = ring->name();
    ring->drain([&](SpanRecord span, const Counts* counts) {
      // begun before the window, by a thread that was late
      if (span.begin_ns < taken_.begin_ns) return;
      // an eighth of the room is for stages here too
      const size_t kept = span.category == Category::stage ? 0 : most_ / 8;
      if (held_ + kept >= most_) {
        ++taken_.dropped;
        return;
      }
      try {
        if (counts) {
          // as many bytes as a span has
          thread.counts.push_back(*counts), ++held_;
          span.counts = uint32_t(thread.counts.size());
        }
        thread.spans.push_back(span);
        ++held_;
      } catch (const std::bad_alloc&) {
        // a run goes on without its trace
        ++taken_.dropped;
      }
    });
  }
  taken_.drain_s += 1e-9 * double(now_ns() - begin);
}

Recording Tracer::take() {
  drain();
  taken_.end_ns = now_ns();
  taken_.realtime_end_ns = realtime_ahead_ns();
  taken_.dropped += dropped_.exchange(0, std::memory_order_relaxed);
  Recording taken = std::exchange(taken_, {});
  begin_recording();
  taken_.span_cost_s = taken.span_cost_s, taken_.counting_cost_s = taken.counting_cost_s;
  std::erase_if(taken.threads, [](const ThreadSpans& thread) { return thread.spans.empty(); });
  return taken;
}

void Tracer::stop() {
  if (!std::exchange(recording_, false)) return;
  listeners.fetch_and(uint8_t(~kTracer), std::memory_order_release);
  recording.store(nullptr);
}

void Tracer::begin_stage() noexcept {
  if (!counters_.open) return;
  if (SpanRing* ring = ring_of_this_thread()) ring->begin_counting();
}

void Tracer::end_span(SpanRecord span) noexcept {
  SpanRing* ring = ring_of_this_thread();
  Counts counts;
  const bool counted = ring && span.category == Category::stage && ring->end_counting(counts);
  span.counts = counted;
  // counters are read within the span, so that what they count is no more than it took
  span.end_ns = now_ns();
  if (!ring || !ring->push(span, counted ? &counts : nullptr))
    dropped_.fetch_add(1, std::memory_order_relaxed);
}

SpanRing* Tracer::ring_of_this_thread() noexcept {
  if (place.tracer == id_) return place.ring;
  place = {.tracer = id_, .ring = nullptr};
  const size_t mine = threads_.fetch_add(1, std::memory_order_acq_rel);
  if (mine >= kMostThreads) return nullptr;
  try {
    place.ring = new SpanRing(capacity_, gettid(), name_of_this_thread(),
                              counters_.open ? counters_.open() : ReadCounts());
  } catch (const std::exception&) {
    // its spans are dropped
    return nullptr;
  }
  rings_[mine].store(place.ring, std::memory_order_release);
  return place.ring;
}

}  // namespace maglev::trace
