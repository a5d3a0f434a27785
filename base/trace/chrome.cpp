#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "base/trace/file.h"
#include "base/trace/order.h"

namespace maglev::trace {
namespace {

// bytes that are given on at once
constexpr size_t kPiece = 1 << 16;

// text in pieces
class Pieces {
 public:
  explicit Pieces(const Bytes& out) : out_(out) {}

  void put(std::string_view text) {
    // what is long already, as torch's events are, is not copied
    if (text.size() >= kPiece) {
      give();
      out_(text);
      return;
    }
    text_ += text;
    if (text_.size() >= kPiece) give();
  }
  void put(int64_t number) {
    char text[24];
    const auto end = std::to_chars(text, text + sizeof text, number).ptr;
    put(std::string_view(text, size_t(end - text)));
  }
  // nanoseconds as microseconds
  void put_us(int64_t ns) {
    char text[40];
    const int length =
        std::snprintf(text, sizeof text, "%s%lld.%03lld", ns < 0 ? "-" : "",
                      (long long)(std::abs(ns) / 1000), (long long)(std::abs(ns) % 1000));
    put(std::string_view(text, size_t(length)));
  }
  void put_real(double number) {
    char text[40];
    put(std::string_view(text, size_t(std::snprintf(text, sizeof text, "%.9g", number))));
  }
  void put_text(std::string_view value) {
    put("\"");
    for (const char c : value) {
      char escaped[8] = {c};
      if (c == '"' || c == '\\') std::snprintf(escaped, sizeof escaped, "\\%c", c);
      else if (uint8_t(c) < 0x20)
        std::snprintf(escaped, sizeof escaped, "\\u%04x", unsigned(uint8_t(c)));
      put(escaped);
    }
    put("\"");
  }
  void give() {
    if (!text_.empty()) out_(text_);
    text_.clear();
  }

 private:
  const Bytes& out_;
  std::string text_;
};

void put_member(Pieces& out, const char* name, std::string_view value) {
  out.put_text(name), out.put(":"), out.put_text(value), out.put(",");
}

void put_member(Pieces& out, const char* name, int64_t value) {
  out.put_text(name), out.put(":"), out.put(value), out.put(",");
}

// what a stage counted
void put_counts(Pieces& out, const Counts& counts, bool first) {
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < 0) continue;
    out.put(first ? "\"" : ",\""), out.put(kCounters[i]), out.put("\":"), out.put(counts[i]);
    first = false;
  }
}

void put_args(Pieces& out, const SpanRecord& span, const ThreadSpans& thread) {
  const auto number = [&](const char* before, int64_t value) { out.put(before), out.put(value); };
  const auto text = [&](const char* before) { out.put(before), out.put_text(span.text); };
  switch (span.category) {
    case Category::stage:
      if (span.first >= 0) number("\"step\":", span.first);
      if (span.counts) put_counts(out, thread.counts[span.counts - 1], span.first < 0);
      break;
    case Category::wait:
      text("\"on\":");
      break;
    case Category::copy:
      number("\"bytes\":", span.first);
      text(",\"direction\":");
      out.put(span.second > 0 ? ",\"pageable\":true" : ",\"pageable\":false");
      break;
    case Category::kernel_cpu:
      if (span.first >= 0) number("\"flops\":", span.first);
      if (span.second >= 0) number(span.first >= 0 ? ",\"bytes\":" : "\"bytes\":", span.second);
      break;
    case Category::graph:
      text("\"phases\":");
      break;
  }
}

void put_uses(Pieces& out, const char* name, const std::vector<ThreadUse>& uses) {
  out.put("\""), out.put(name), out.put("\":[");
  for (size_t i = 0; i < uses.size(); ++i) {
    const ThreadUse& use = uses[i];
    out.put(i ? ",{" : "{");
    put_member(out, "on_processor_ns", use.on_processor);
    put_member(out, "queued_ns", use.queued);
    put_member(out, "in_kernel_ns", use.in_kernel);
    put_member(out, "faults", use.faults);
    put_member(out, "gave_up", use.gave_up);
    put_member(out, "taken_away", use.taken_away);
    out.put("\"tid\":"), out.put(use.tid), out.put("}");
  }
  out.put("],");
}

// what findings look at besides spans
void put_circumstances(Pieces& out, const RecordedRun& run) {
  put_member(out, "processors", run.processors);
  put_member(out, "iteration_steps", run.iteration_steps);
  put_member(out, "block_environments", run.block_environments);
  out.put("\"settings\":{");
  for (size_t i = 0; i < run.settings.size(); ++i) {
    const auto& [name, value] = run.settings[i];
    out.put(i ? "," : ""), out.put_text(name), out.put(":"), out.put_text(value);
  }
  out.put("},");
  put_uses(out, "use", run.use);
  if (!run.programs.empty()) put_uses(out, "programs", run.programs);
}

void put_names(Pieces& text, const Recording& recording, const RecordedRun& run) {
  const auto metadata = [&](const char* name, int64_t tid, std::string_view value) {
    text.put("{\"ph\":\"M\",\"name\":\"");
    text.put(name);
    text.put("\",\"pid\":"), text.put(run.written_by);
    text.put(",\"tid\":"), text.put(tid);
    text.put(",\"args\":{\"name\":"), text.put_text(value), text.put("}}");
  };
  metadata("process_name", run.written_by, "maglev " + run.algorithm + " " + run.environment);
  for (const ThreadSpans& thread : recording.threads)
    text.put(",\n"), metadata("thread_name", thread.tid, thread.name);
}

// `base`: what times count from
void put_spans(Pieces& text, const Recording& recording, const RecordedRun& run, int64_t base) {
  for (const ThreadSpans& thread : recording.threads)
    for (const SpanRecord* span : outside_in(thread)) {
      text.put(",\n{\"ph\":\"X\",\"cat\":\"");
      text.put(name_of(span->category));
      text.put("\",\"name\":"), text.put_text(span->name);
      text.put(",\"pid\":"), text.put(run.written_by);
      text.put(",\"tid\":"), text.put(thread.tid);
      text.put(",\"ts\":"), text.put_us(span->begin_ns + recording.realtime_ns - base);
      text.put(",\"dur\":"), text.put_us(span->end_ns - span->begin_ns);
      text.put(",\"args\":{"), put_args(text, *span, thread), text.put("}}");
    }
}

// "maglev": what the spans are of, and the end of the file
void put_about(Pieces& text, const Recording& recording, const RecordedRun& run) {
  text.put(",\"maglev\":{");
  put_member(text, "version", run.version);
  put_member(text, "run", run.run);
  put_member(text, "algorithm", run.algorithm);
  put_member(text, "environment", run.environment);
  put_member(text, "mode", run.mode);
  put_member(text, "window", run.window);
  put_member(text, "reason", run.reason);
  put_member(text, "device", run.device);
  put_member(text, "threads", run.threads);
  put_circumstances(text, run);
  put_member(text, "pid", run.written_by);
  put_member(text, "dropped", recording.dropped);
  put_member(text, "spans", int64_t(recording.spans()));
  // clocks, for files of several processes
  put_member(text, "monotonic_begin_ns", recording.begin_ns);
  put_member(text, "monotonic_end_ns", recording.end_ns);
  put_member(text, "realtime_ahead_ns", recording.realtime_ns);
  put_member(text, "realtime_ahead_end_ns", recording.realtime_end_ns);
  if (!run.boot.empty()) put_member(text, "boot", run.boot);
  if (!run.counters.empty()) put_member(text, "counters", run.counters);
  if (run.peak_gflops > 0) {
    text.put("\"peaks\":{\"gflops\":"), text.put_real(run.peak_gflops);
    text.put(",\"gbytes_s\":"), text.put_real(run.peak_gbytes_s), text.put("},");
  }
  text.put("\"span_cost_ns\":"), text.put_real(1e9 * recording.span_cost_s);
  if (recording.counting_cost_s > 0)
    text.put(",\"counting_cost_ns\":"), text.put_real(1e9 * recording.counting_cost_s);
  text.put(",\"overhead_s\":"), text.put_real(recording.overhead_s());
  text.put("}}\n");
}

// where the members of torch's file meet ours
struct Inner {
  std::string_view head,
      tail;             ///< until its events' [, and from its first event to its last member
  int64_t base_ns = 0;  ///< what its times count from
};

Inner split(std::string_view file) {
  Inner inner;
  const size_t key = file.find("\"traceEvents\"");
  const size_t events = key == file.npos ? key : file.find('[', key);
  const size_t end = file.rfind('}');
  if (events == file.npos || end == file.npos || end < events) return inner;
  inner.head = file.substr(0, events + 1);
  inner.tail = file.substr(events + 1, end - events - 1);
  // before the events or behind them
  constexpr std::string_view kBase = "\"baseTimeNanoseconds\":";
  const size_t base = file.rfind(kBase);
  if (base == file.npos) return inner;
  const char* digits = file.data() + base + kBase.size();
  while (*digits == ' ') ++digits;
  std::from_chars(digits, file.data() + file.size(), inner.base_ns);
  return inner;
}

bool begins_with_event(std::string_view text) {
  const size_t first = text.find_first_not_of(" \n\r\t");
  return first != text.npos && text[first] == '{';
}

}  // namespace

std::string boot_of_this_machine() {
  std::string boot;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::getline(file, boot);
  return boot;
}

void write_chrome(const Recording& recording, const RecordedRun& run, std::string_view inner,
                  const Bytes& out) {
  Pieces text(out);
  const Inner other = split(inner);
  const int64_t base =
      other.head.empty() ? recording.begin_ns + recording.realtime_ns : other.base_ns;

  // head
  if (other.head.empty()) {
    text.put("{\"displayTimeUnit\":\"ms\",");
    put_member(text, "baseTimeNanoseconds", base);
    text.put("\"traceEvents\":[\n");
  } else {
    text.put(other.head);
    text.put("\n");
  }

  put_names(text, recording, run);
  put_spans(text, recording, run, base);

  // tail
  if (other.head.empty()) text.put("\n]");
  else {
    if (begins_with_event(other.tail)) text.put(",");
    text.put(other.tail);
  }
  put_about(text, recording, run);
  text.give();
}

}  // namespace maglev::trace
