#include "base/timeline/timeline.h"

#include <algorithm>
#include <limits>

#include "base/core/error.h"

namespace maglev {
namespace {

constexpr size_t kMostNameBytes = 512;
constexpr size_t kManySpans = 1 << 18;
constexpr uint32_t kNoTrack = 0xffff;

bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

bool is_communication(std::string_view name) {
  return name.starts_with("nccl") || name.starts_with("rccl") || has(name, "ncclKernel") ||
         has(name, "ncclDevKernel");
}

// a call of CUDA's or HIP's runtime or driver: cudaLaunchKernel, hipMemcpyAsync, cuLaunchKernelEx
SpanKind runtime_kind(std::string_view name) {
  if (has(name, "Synchronize")) return SpanKind::sync;
  if (has(name, "Launch")) return SpanKind::launch;
  if (has(name, "Memcpy")) return SpanKind::host_copy;
  if (has(name, "Memset")) return SpanKind::launch;
  if (has(name, "Malloc") || has(name, "Free") || has(name, "MemCreate") || has(name, "MemMap") ||
      has(name, "HostAlloc") || has(name, "HostRegister") || has(name, "MemUnmap") ||
      has(name, "MemRelease"))
    return SpanKind::allocate;
  return SpanKind::runtime;
}

bool is_iteration(const TraceEvent& event) {
  return event.name.starts_with("ProfilerStep#") ||
         (event.category == "stage" && event.name == "iteration");
}

// false: not a span that counts, such as a stack of Python's or a copy of an annotation on a stream
bool kind_of(const TraceEvent& event, SpanKind& kind) {
  const std::string_view category = event.category;
  if (category == "cpu_op" || category == "kernel_cpu" || category == "operator")
    kind = SpanKind::operation;
  else if (category == "stage" || category == "user_annotation")
    kind = is_iteration(event) ? SpanKind::iteration : SpanKind::stage;
  else if (category == "cuda_runtime" || category == "cuda_driver" || category == "runtime" ||
           category == "hip_runtime" || category == "hip_driver" || category == "Runtime")
    kind = runtime_kind(event.name);
  else if (category == "kernel" || category == "Kernel")
    kind = is_communication(event.name) ? SpanKind::communication : SpanKind::kernel;
  else if (category == "gpu_memcpy" || category == "Memcpy") kind = SpanKind::device_copy;
  else if (category == "gpu_memset" || category == "Memset") kind = SpanKind::device_set;
  else if (category == "wait") kind = SpanKind::wait;
  else if (category == "copy") kind = SpanKind::copy;
  else if (category == "graph") kind = SpanKind::graph;
  // what others than PyTorch and we write has categories of its own: a span on a thread
  else if (category == "python_function" || category == "Trace" || category == "overhead" ||
           category == "gpu_user_annotation" || category == "cuda_sync" || category == "Collective")
    return false;
  else kind = SpanKind::stage;
  return true;
}

WaitOn wait_on(std::string_view on) {
  if (on == "pool") return WaitOn::pool;
  if (on == "lock") return WaitOn::lock;
  if (on == "device") return WaitOn::device;
  if (on == "io") return WaitOn::io;
  if (on == "replay") return WaitOn::replay;
  if (on == "processes") return WaitOn::processes;
  return WaitOn::other;
}

// args.direction of ours, or the name of Kineto's: "Memcpy HtoD (Pageable -> Device)"
CopyWay way_of(const TraceEvent& event) {
  const std::string_view text = event.direction.empty() ? event.name : event.direction;
  if (has(text, "HtoD") || has(text, "HostToDevice")) return CopyWay::host_to_device;
  if (has(text, "DtoH") || has(text, "DeviceToHost")) return CopyWay::device_to_host;
  if (has(text, "DtoD") || has(text, "PtoP") || has(text, "DeviceToDevice"))
    return CopyWay::device_to_device;
  if (has(text, "HtoH") || has(text, "HostToHost")) return CopyWay::host_to_host;
  return CopyWay::unknown;
}

}  // namespace

TimelineReader::TimelineReader(std::string path, TimelineLimits limits)
    : path_(std::move(path)), limits_(limits) {
  timeline_.names = {"(more names)"};
}

bool TimelineReader::next() {
  if (started_ && timeline_.last_window()) return false;
  if (started_) timeline_.begin = timeline_.end;
  timeline_.end = std::numeric_limits<int64_t>::max();
  timeline_.spans.clear();
  timeline_.numbers.assign(1, {});
  timeline_.counts.assign(1, {});
  timeline_.allocations.clear();
  for (auto& open : open_) open.clear();
  open_count_ = 0;
  timeline_.unclosed = 0;

  const TraceFile file = read_trace(path_, [&](const TraceEvent& event) { take(event); });
  if (!started_ && timeline_.first_ns > timeline_.last_ns)
    throw Error("[" + path_ + "] holds no span with a time and a duration among " +
                std::to_string(file.events) + " events" +
                (file.torn ? ", and ends in the middle of one" : "") +
                "; record a window in which something runs");
  timeline_.file = file;
  started_ = true;
  timeline_.unclosed += open_count_;
  for (Track& track : timeline_.tracks) {
    if (const auto named = thread_names_.find(track.process + '\n' + track.thread);
        named != thread_names_.end())
      track.thread_name = named->second;
    if (const auto named = process_names_.find(track.process); named != process_names_.end())
      track.process_name = named->second;
  }

  // cut to the window, in order
  auto& spans = timeline_.spans;
  for (Span& span : spans) {
    span.continued = span.begin < timeline_.begin;
    span.begin = std::max(span.begin, timeline_.begin);
    span.end = std::min(span.end, timeline_.end);
  }
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    if (a.track != b.track) return a.track < b.track;
    if (a.begin != b.begin) return a.begin < b.begin;
    if (a.end != b.end) return a.end > b.end;
    // what marks a stage is around what it marks; what is there twice lies side by side
    return a.kind != b.kind ? a.kind < b.kind : a.name < b.name;
  });
  std::sort(timeline_.allocations.begin(), timeline_.allocations.end(),
            [](const Allocation& a, const Allocation& b) {
              return a.track != b.track ? a.track < b.track : a.at < b.at;
            });
  return true;
}

void TimelineReader::take(const TraceEvent& event) {
  if (event.phase == 'M') return metadata(event);
  if (event.phase == 'i' && event.name == "[memory]") return take_allocation(event);
  if (event.phase != 'X' && event.phase != 'B' && event.phase != 'E') return;
  if (!event.timed) return;
  if (event.phase == 'E') {
    const uint32_t track = track_of(event);
    if (track != kNoTrack) end_span(event, track);
    return;
  }
  Span span{};
  if (!kind_of(event, span.kind)) return;
  const uint32_t track = track_of(event);
  if (track == kNoTrack || event.duration_ns < 0) {
    if (timeline_.begin == std::numeric_limits<int64_t>::min()) ++timeline_.dropped;
    return;
  }
  span.track = uint16_t(track);
  span.begin = event.start_ns, span.end = event.start_ns + event.duration_ns;
  span.name = name_of_event(span.kind == SpanKind::iteration ? "iteration" : event.name);
  span.link = uint32_t(event.correlation);
  span.on = wait_on(event.on);
  if (span.kind == SpanKind::device_copy || span.kind == SpanKind::copy) {
    span.way = way_of(event);
    span.pageable = event.pageable || has(event.name, "Pageable");
  }
  const Open one{span, {event.bytes, event.flops}, event.counts, event.counted};
  if (event.phase == 'X') return keep(one);
  if (open_count_ >= limits_.open) {
    ++timeline_.unclosed;
    return;
  }
  ++open_count_;
  open_[track].push_back(one);
}

void TimelineReader::take_allocation(const TraceEvent& event) {
  const int64_t at = event.start_ns;
  if (!event.timed || event.taken <= 0 || at < timeline_.begin || at >= timeline_.end) return;
  const uint32_t track = track_of(event);
  if (track == kNoTrack || timeline_.allocations.size() >= limits_.allocations)
    return void(++timeline_.allocations_dropped);
  timeline_.allocations.push_back({at, event.taken, uint16_t(track), event.of_device});
}

void TimelineReader::end_span(const TraceEvent& event, uint32_t track) {
  auto& open = open_[track];
  if (open.empty() || event.start_ns < open.back().span.begin) {
    ++timeline_.unclosed;
    return;
  }
  Open last = open.back();
  open.pop_back(), --open_count_;
  last.span.end = event.start_ns;
  keep(last);
}

void TimelineReader::keep(const Open& one) {
  Span span = one.span;
  // what is counted of the file is counted once
  if (!started_) {
    Track& track = timeline_.tracks[span.track];
    timeline_.first_ns = std::min(timeline_.first_ns, span.begin);
    timeline_.last_ns = std::max(timeline_.last_ns, span.end);
    if (span.kind == SpanKind::iteration) {
      ++track.iterations;
      track.iterations_begin = std::min(track.iterations_begin, span.begin);
      track.iterations_end = std::max(track.iterations_end, span.end);
    }
    if (span.length() <= std::numeric_limits<int64_t>::max() - track.top_ns)
      track.top_ns += span.length();
    track.begin = std::min(track.begin, span.begin), track.end = std::max(track.end, span.end);
    ++track.spans;
    if (on_device(span.kind) && !track.stream) {
      track.stream = true;
      const auto [place, added] = devices_.emplace(track.process, devices_.size());
      track.device = place->second;
    }
  }
  if (span.begin >= timeline_.end || span.end < timeline_.begin ||
      (span.end == timeline_.begin && span.begin < span.end))
    return;
  if (is_stage(span.kind)) {
    if (one.counted)
      span.numbers = uint32_t(timeline_.counts.size()), timeline_.counts.push_back(one.counts);
  } else if (one.numbers.bytes > 0 || one.numbers.flops > 0) {
    span.numbers = uint32_t(timeline_.numbers.size());
    timeline_.numbers.push_back(one.numbers);
  }
  // room for all at once: a vector that doubles would hold them twice
  if (timeline_.spans.size() == kManySpans) timeline_.spans.reserve(limits_.spans);
  timeline_.spans.push_back(span);
  if (timeline_.spans.size() >= limits_.spans) narrow();
}

// The window has too many spans: it ends earlier, with three quarters of them.
void TimelineReader::narrow() {
  auto& spans = timeline_.spans;
  const auto cut = spans.begin() + std::ptrdiff_t(spans.size() / 4 * 3);
  std::nth_element(spans.begin(), cut, spans.end(),
                   [](const Span& a, const Span& b) { return a.begin < b.begin; });
  const int64_t end = cut->begin;
  if (end > timeline_.begin &&
      std::any_of(spans.begin(), cut, [&](const Span& s) { return s.begin < end; })) {
    timeline_.end = end;
    std::erase_if(spans, [&](const Span& span) { return span.begin >= end; });
  } else {
    // so many at one instant that no window holds them
    timeline_.dropped += uint64_t(spans.end() - cut);
    spans.erase(cut, spans.end());
  }
  std::erase_if(timeline_.allocations,
                [&](const Allocation& one) { return one.at >= timeline_.end; });
  // their numbers move together
  std::vector<SpanNumbers> numbers(1);
  std::vector<SpanCounts> counts(1);
  for (Span& span : spans) {
    if (!span.numbers) continue;
    if (is_stage(span.kind))
      counts.push_back(timeline_.counts[span.numbers]), span.numbers = uint32_t(counts.size() - 1);
    else
      numbers.push_back(timeline_.numbers[span.numbers]),
          span.numbers = uint32_t(numbers.size() - 1);
  }
  timeline_.numbers = std::move(numbers);
  timeline_.counts = std::move(counts);
}

uint32_t TimelineReader::track_of(const TraceEvent& event) {
  key_.assign(event.process.substr(0, 128)).append(1, '\n').append(event.thread.substr(0, 128));
  if (const auto found = tracks_.find(key_); found != tracks_.end()) return found->second;
  if (timeline_.tracks.size() >= std::min<size_t>(limits_.tracks, kNoTrack)) return kNoTrack;
  const auto number = uint32_t(timeline_.tracks.size());
  tracks_.emplace(key_, number);
  Track track;
  track.process = unescaped(event.process.substr(0, 128));
  track.thread = unescaped(event.thread.substr(0, 128));
  timeline_.tracks.push_back(std::move(track));
  open_.emplace_back();
  return number;
}

uint32_t TimelineReader::name_of_event(std::string_view name) {
  name = name.substr(0, kMostNameBytes);
  if (const auto found = names_.find(name); found != names_.end()) return found->second;
  if (timeline_.names.size() >= limits_.names) return 0;
  const auto number = uint32_t(timeline_.names.size());
  names_.emplace(name, number);
  timeline_.names.push_back(unescaped(name));
  return number;
}

void TimelineReader::metadata(const TraceEvent& event) {
  if (started_ || event.arg_name.empty()) return;
  const std::string name = unescaped(event.arg_name.substr(0, kMostNameBytes));
  if (event.name == "thread_name" && thread_names_.size() < limits_.tracks)
    thread_names_.emplace(unescaped(event.process) + '\n' + unescaped(event.thread), name);
  if (event.name == "process_name" && process_names_.size() < limits_.tracks)
    process_names_.emplace(unescaped(event.process), name);
}

}  // namespace maglev
