#include <vector>

#include "base/trace/file.h"
#include "base/trace/order.h"
#include "base/trace/protobuf.h"

namespace maglev::trace {
namespace {

using protobuf::put_bytes;
using protobuf::put_number;

// builtin clocks of protos/perfetto/common/builtin_clock.proto
constexpr uint64_t kRealtime = 1, kMonotonic = 3;
// all packets are of one sequence
constexpr uint64_t kSequence = 1;
// tracks are named by numbers: the process, then its threads
constexpr uint64_t kProcessTrack = 1, kFirstThreadTrack = 2;

// Trace: repeated TracePacket packet = 1; TracePacket: 10 trusted_packet_sequence_id
void put_packet(const Bytes& out, std::string packet) {
  put_number(packet, 10, kSequence);
  std::string text;
  put_bytes(text, 1, packet);
  out(text);
}

// TracePacket: 6 clock_snapshot { 1 clocks { 1 clock_id, 2 timestamp }, 2 primary_trace_clock }
std::string clock_packet(const Recording& recording) {
  std::string snapshot, packet;
  const auto clock = [&](uint64_t id, int64_t ns) {
    std::string reading;
    put_number(reading, 1, id);
    put_number(reading, 2, uint64_t(ns));
    put_bytes(snapshot, 1, reading);
  };
  clock(kMonotonic, recording.begin_ns);
  clock(kRealtime, recording.begin_ns + recording.realtime_ns);
  put_number(snapshot, 2, kMonotonic);
  put_bytes(packet, 6, snapshot);
  return packet;
}

// TracePacket: 60 track_descriptor { 1 uuid, 2 name, 3 process { 1 pid, 6 process_name },
// 4 thread { 1 pid, 2 tid, 5 thread_name }, 5 parent_uuid }
std::string process_packet(const RecordedRun& run) {
  std::string process, track, packet;
  put_number(process, 1, uint64_t(run.written_by));
  put_bytes(process, 6, "maglev " + run.algorithm + " " + run.environment);
  put_number(track, 1, kProcessTrack);
  put_bytes(track, 3, process);
  put_bytes(packet, 60, track);
  return packet;
}

std::string thread_packet(const RecordedRun& run, const ThreadSpans& of, uint64_t uuid) {
  std::string thread, track, packet;
  put_number(thread, 1, uint64_t(run.written_by));
  put_number(thread, 2, uint64_t(of.tid));
  put_bytes(thread, 5, of.name);
  put_number(track, 1, uuid);
  put_bytes(track, 4, thread);
  put_number(track, 5, kProcessTrack);
  put_bytes(packet, 60, track);
  return packet;
}

// DebugAnnotation: 10 name, 4 int_value, 6 string_value; TrackEvent: 4 debug_annotations
void put_note(std::string& event, std::string_view name, int64_t value) {
  std::string note;
  put_bytes(note, 10, name);
  put_number(note, 4, uint64_t(value));
  put_bytes(event, 4, note);
}

void put_note(std::string& event, const char* name, const char* value) {
  std::string note;
  put_bytes(note, 10, name);
  put_bytes(note, 6, value);
  put_bytes(event, 4, note);
}

void put_notes(std::string& event, const SpanRecord& span, const ThreadSpans& thread) {
  switch (span.category) {
    case Category::stage:
      if (span.first >= 0) put_note(event, "step", span.first);
      if (!span.counts) break;
      for (size_t i = 0; i < kCounters.size(); ++i)
        if (const int64_t count = thread.counts[span.counts - 1][i]; count >= 0)
          put_note(event, kCounters[i], count);
      break;
    case Category::wait:
      put_note(event, "on", span.text);
      break;
    case Category::copy:
      put_note(event, "bytes", span.first);
      put_note(event, "direction", span.text);
      put_note(event, "pageable", span.second > 0 ? 1 : 0);
      break;
    case Category::kernel_cpu:
      if (span.first >= 0) put_note(event, "flops", span.first);
      if (span.second >= 0) put_note(event, "bytes", span.second);
      break;
    case Category::graph:
      put_note(event, "phases", span.text);
      break;
  }
}

// TracePacket: 8 timestamp, 58 timestamp_clock_id, 11 track_event
std::string event_packet(int64_t ns, const std::string& event) {
  std::string packet;
  put_number(packet, 8, uint64_t(ns));
  put_number(packet, 58, kMonotonic);
  put_bytes(packet, 11, event);
  return packet;
}

// TrackEvent: 9 type (1 begins a slice, 2 ends one), 11 track_uuid, 22 categories, 23 name
std::string begin_packet(const SpanRecord& span, const ThreadSpans& thread, uint64_t track) {
  std::string event;
  put_number(event, 9, 1);
  put_number(event, 11, track);
  put_bytes(event, 22, name_of(span.category));
  put_bytes(event, 23, span.name);
  put_notes(event, span, thread);
  return event_packet(span.begin_ns, event);
}

std::string end_packet(const SpanRecord& span, uint64_t track) {
  std::string event;
  put_number(event, 9, 2);
  put_number(event, 11, track);
  return event_packet(span.end_ns, event);
}

}  // namespace

void write_perfetto(const Recording& recording, const RecordedRun& run, const Bytes& out) {
  put_packet(out, clock_packet(recording));
  put_packet(out, process_packet(run));
  uint64_t track = kFirstThreadTrack;
  for (const ThreadSpans& thread : recording.threads) {
    put_packet(out, thread_packet(run, thread, track));
    // slices that are open, the innermost last
    std::vector<const SpanRecord*> open;
    for (const SpanRecord* span : outside_in(thread)) {
      for (; !open.empty() && open.back()->end_ns <= span->begin_ns; open.pop_back())
        put_packet(out, end_packet(*open.back(), track));
      put_packet(out, begin_packet(*span, thread, track));
      open.push_back(span);
    }
    for (; !open.empty(); open.pop_back()) put_packet(out, end_packet(*open.back(), track));
    ++track;
  }
}

}  // namespace maglev::trace
