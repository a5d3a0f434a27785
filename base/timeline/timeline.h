#pragma once
// A trace as numbers: spans of threads and of a device's streams, with interned names. A window of
// time at a time, so that memory is bounded by the spans of one window and not by the file.

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/timeline/events.h"

namespace maglev {

/// What a span is, by its category and name.
enum class SpanKind : uint8_t {
  // of threads
  iteration,  ///< one step of training: "iteration" of ours, ProfilerStep#N of PyTorch's profiler
  stage,      ///< stages of ours, annotations by users
  operation,  ///< an operation on the processor
  launch,     ///< a call that gives the device work and returns
  sync,       ///< a call that waits for the device
  host_copy,  ///< a call that copies and may wait for it
  allocate,   ///< a call that takes device or pinned memory from the system, or gives it back
  runtime,    ///< any other call of the device's runtime
  wait,       ///< a thread waits, `wait` says on what
  copy,       ///< a copy that the processor makes
  graph,      ///< a graph is replayed
  // of streams
  kernel,
  communication,  ///< a kernel of NCCL or RCCL
  device_copy,
  device_set,
};
inline bool on_device(SpanKind kind) { return kind >= SpanKind::kernel; }

/// What a thread waits on, args.on of a wait.
enum class WaitOn : uint8_t { other, pool, lock, device, io, replay, processes };

enum class CopyWay : uint8_t {
  unknown,
  host_to_device,
  device_to_host,
  device_to_device,
  host_to_host
};
constexpr auto names_of(CopyWay) { return std::array{"?", "HtoD", "DtoH", "DtoD", "HtoH"}; }

struct Span {
  int64_t begin, end;  ///< ns
  uint32_t name;       ///< in Timeline::names
  uint32_t numbers;    ///< in Timeline::numbers, of a stage in Timeline::counts; 0: none
  uint32_t link;       ///< correlation of a launch or of what it launched; 0: none
  uint16_t track;      ///< in Timeline::tracks
  SpanKind kind;
  WaitOn on : 3;
  CopyWay way : 3;
  bool pageable : 1;
  bool continued : 1;  ///< began in the window before

  int64_t length() const { return end - begin; }
};

static_assert(sizeof(Span) == 32, "millions of them are held at once");

struct SpanNumbers {
  double bytes = 0, flops = 0;
};

/// Memory that torch's allocators gave.
struct Allocation {
  int64_t at;  ///< ns
  double bytes;
  uint16_t track;  ///< the thread that asked
  bool device;     ///< memory of a device
};

/// What a stage counted, in the order of trace::kCounters; negative: not counted.
using SpanCounts = std::array<float, trace::kCounters.size()>;

/// A stage, or an iteration: what may have counted.
inline bool is_stage(SpanKind kind) { return kind <= SpanKind::stage; }

/// A thread, or a stream of a device.
struct Track {
  std::string process, thread;  ///< pid and tid as the file has them
  std::string thread_name, process_name;
  bool stream = false;      ///< something ran there that is work of a device
  uint32_t device = 0;      ///< of a stream: which, as its process is numbered
  uint64_t spans = 0;       ///< of the whole file
  uint64_t iterations = 0;  ///< marks on it, of the whole file, and what they span
  int64_t iterations_begin = std::numeric_limits<int64_t>::max();
  int64_t iterations_end = std::numeric_limits<int64_t>::min();
  int64_t begin = std::numeric_limits<int64_t>::max();  ///< of its spans, of the whole file
  int64_t end = std::numeric_limits<int64_t>::min();
  int64_t top_ns = 0;  ///< length of its spans, however nested: which thread does most

  /// "trainer", or its number where nobody named it.
  const std::string& name() const { return thread_name.empty() ? thread : thread_name; }
};

/// Bounds on what is kept. Tests lower them.
struct TimelineLimits {
  size_t spans = 12 << 20;  ///< of a window: 32 bytes each
  size_t names = 200'000, tracks = 4096, open = 1 << 16;
  size_t allocations = 4 << 20;  ///< of a window, 24 bytes each
};

/// One window of a trace: all spans that touch [begin, end), cut to it, by track and time; an outer
/// span before those inside. names, tracks and what is counted of the file stay from window to
/// window.
struct Timeline {
  int64_t begin = std::numeric_limits<int64_t>::min();
  int64_t end = std::numeric_limits<int64_t>::max();  ///< the last window's has no end
  std::vector<Span> spans;
  std::vector<SpanNumbers> numbers;
  std::vector<SpanCounts> counts;
  std::vector<Allocation> allocations;  ///< by track and time

  std::vector<std::string> names;
  std::vector<Track> tracks;
  TraceFile file;
  int64_t first_ns = std::numeric_limits<int64_t>::max();  ///< of the file: where its spans begin
  int64_t last_ns = std::numeric_limits<int64_t>::min();   ///< and end
  uint64_t dropped = 0;                                    ///< spans that no window could take
  uint64_t allocations_dropped = 0;                        ///< likewise
  uint64_t unclosed = 0;  ///< beginnings without an end and ends without a beginning

  bool last_window() const { return end > last_ns; }
};

/// Reads a trace window after window: `while (reader.next()) use(reader.timeline())`. A file of up
/// to `limits.spans` spans is one window and is read once; a longer one is read once a window.
class TimelineReader {
 public:
  explicit TimelineReader(std::string path, TimelineLimits limits = {});
  /// Throws Error as read_trace does, and where a file has no span.
  bool next();
  Timeline& timeline() { return timeline_; }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  template <class Value>
  using Names = std::unordered_map<std::string, Value, Hash, std::equal_to<>>;
  struct Open {
    Span span;
    SpanNumbers numbers;
    SpanCounts counts;
    bool counted;
  };

  void take(const TraceEvent& event);
  void take_allocation(const TraceEvent& event);
  void metadata(const TraceEvent& event);
  void end_span(const TraceEvent& event, uint32_t track);
  void keep(const Open& one);
  void narrow();
  uint32_t track_of(const TraceEvent& event);
  uint32_t name_of_event(std::string_view name);

  std::string path_;
  TimelineLimits limits_;
  Timeline timeline_;
  Names<uint32_t> names_, tracks_, devices_;
  Names<std::string> thread_names_, process_names_;
  std::vector<std::vector<Open>> open_;  // per track
  size_t open_count_ = 0;
  std::string key_;
  bool started_ = false;
};

}  // namespace maglev
