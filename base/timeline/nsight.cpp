#include "base/timeline/nsight.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/core/error.h"
#include "base/timeline/events.h"

namespace maglev {
namespace {

constexpr size_t kTextBytes = 1 << 16;

// a serial number of a thread holds the process above these bits (see the reference's "Serialized
// process and thread identifiers")
constexpr int64_t kThreads = 0x1000000;

std::string json_text(std::string_view text) {
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') json += '\\';
    if (uint8_t(c) >= 0x20) json += c;
  }
  return json + "\"";
}

// "cudaLaunchKernel_v7000" is what PyTorch's profiler calls cudaLaunchKernel
std::string_view without_version(std::string_view name) {
  const size_t mark = name.rfind("_v");
  if (mark == name.npos || mark + 2 == name.size()) return name;
  const auto digits = name.substr(mark + 2);
  const bool version =
      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  // those of the driver have _v2 and the like as part of their names, and are told apart by it
  return version && digits.size() > 1 ? name.substr(0, mark) : name;
}

}  // namespace

NsightText::NsightText(const std::string& path) : file_(path) {
  if (!file_.has_table("StringIds"))
    throw Error("[" + path + "] is a database of SQLite, but none that Nsight Systems exported; " +
                "make one with `nsys export --type sqlite REPORT`");
  int64_t base = 0;
  if (file_.has_table("TARGET_INFO_SESSION_START_TIME")) {
    SqliteRows start(file_, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME");
    if (start.next()) base = start.integer(0);
  }
  text_ = "{\"baseTimeNanoseconds\":" + std::to_string(base) + ",\"traceEvents\":[\n";

  // columns 0 and 1 of what has a time are its begin and its end
  add_source("PROCESSES", "SELECT pid, name FROM PROCESSES", &NsightText::put_process_name);
  add_source("ThreadNames",
             "SELECT n.globalTid, s.value FROM ThreadNames n JOIN StringIds s ON s.id = n.nameId",
             &NsightText::put_thread_name);
  const bool by_number =
      file_.has_table("NVTX_EVENTS") && file_.has_column("NVTX_EVENTS", "textId");
  add_source(
      "NVTX_EVENTS",
      by_number
          ? "SELECT e.start, e.end, e.globalTid, coalesce(e.text, s.value) FROM NVTX_EVENTS e "
            "LEFT JOIN StringIds s ON s.id = e.textId WHERE e.end > e.start ORDER BY e.start"
          : "SELECT start, end, globalTid, text FROM NVTX_EVENTS WHERE end > start ORDER BY start",
      &NsightText::put_range);
  add_source("CUPTI_ACTIVITY_KIND_RUNTIME",
             "SELECT e.start, e.end, e.globalTid, s.value, e.correlationId FROM "
             "CUPTI_ACTIVITY_KIND_RUNTIME e JOIN StringIds s ON s.id = e.nameId ORDER BY e.start",
             &NsightText::put_call);
  add_source(
      "CUPTI_ACTIVITY_KIND_KERNEL",
      "SELECT e.start, e.end, e.deviceId, e.streamId, e.correlationId, s.value FROM "
      "CUPTI_ACTIVITY_KIND_KERNEL e JOIN StringIds s ON s.id = e.demangledName ORDER BY e.start",
      &NsightText::put_kernel);
  add_source("CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
             "SELECT start, end, deviceId, streamId, correlationId, graphId FROM "
             "CUPTI_ACTIVITY_KIND_GRAPH_TRACE ORDER BY start",
             &NsightText::put_graph);
  add_source(
      "CUPTI_ACTIVITY_KIND_MEMCPY",
      "SELECT start, end, deviceId, streamId, correlationId, copyKind, srcKind, dstKind, bytes "
      "FROM CUPTI_ACTIVITY_KIND_MEMCPY ORDER BY start",
      &NsightText::put_copy);
  add_source("CUPTI_ACTIVITY_KIND_MEMSET",
             "SELECT start, end, deviceId, streamId, correlationId, bytes FROM "
             "CUPTI_ACTIVITY_KIND_MEMSET ORDER BY start",
             &NsightText::put_set);
}

void NsightText::add_source(const std::string& table, const std::string& query,
                            void (NsightText::*put)(const SqliteRows& row)) {
  // Nsight makes a table when it has a row for it
  if (file_.has_table(table)) sources_.push_back({query, put});
}

size_t NsightText::read(char* to, size_t most) {
  while (place_ == text_.size() && fill()) {
  }
  const size_t count = std::min(most, text_.size() - place_);
  std::memcpy(to, text_.data() + place_, count);
  place_ += count;
  return count;
}

bool NsightText::fill() {
  text_.clear(), place_ = 0;
  while (text_.size() < kTextBytes) {
    if (source_ == sources_.size()) {
      if (over_) return !text_.empty();
      text_ += "\n]}\n";
      over_ = true;
      continue;
    }
    const Source& source = sources_[source_];
    if (!rows_) rows_ = std::make_unique<SqliteRows>(file_, source.query);
    if (rows_->next()) (this->*source.put)(*rows_);
    else rows_.reset(), ++source_;
  }
  return true;
}

void NsightText::put_process_name(const SqliteRows& row) {
  text_ += std::exchange(any_, true) ? ",\n" : "";
  text_ += "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":" + std::to_string(row.integer(0)) +
           ",\"args\":{\"name\":" + json_text(row.text(1)) + "}}";
}

void NsightText::put_thread_name(const SqliteRows& row) {
  text_ += std::exchange(any_, true) ? ",\n" : "";
  text_ += "{\"ph\":\"M\",\"name\":\"thread_name\"";
  put_thread(row.integer(0));
  text_ += ",\"args\":{\"name\":" + json_text(row.text(1)) + "}}";
}

void NsightText::begin_event(const char* category, std::string_view name, const SqliteRows& row) {
  const int64_t begin = row.integer(0), end = row.integer(1);
  text_ += std::exchange(any_, true) ? ",\n" : "";
  text_ += "{\"ph\":\"X\",\"cat\":\"" + std::string(category) + "\",\"name\":" + json_text(name) +
           ",\"ts\":" + microseconds_text(begin) +
           ",\"dur\":" + microseconds_text(std::max(begin, end) - begin);
}

void NsightText::put_thread(int64_t serial) {
  text_ += ",\"pid\":" + std::to_string(serial / kThreads % kThreads) +
           ",\"tid\":" + std::to_string(serial % kThreads);
}

// streams are threads of their device, as in PyTorch's files
void NsightText::put_stream(int64_t device, int64_t stream, int64_t correlation) {
  text_ += ",\"pid\":" + std::to_string(device) + ",\"tid\":" + std::to_string(stream) +
           ",\"args\":{\"device\":" + std::to_string(device) +
           ",\"stream\":" + std::to_string(stream) +
           ",\"correlation\":" + std::to_string(correlation);
}

void NsightText::put_range(const SqliteRows& row) {
  begin_event("user_annotation", row.text(3), row);
  put_thread(row.integer(2));
  text_ += "}";
}

void NsightText::put_call(const SqliteRows& row) {
  begin_event("cuda_runtime", without_version(row.text(3)), row);
  put_thread(row.integer(2));
  text_ += ",\"args\":{\"correlation\":" + std::to_string(row.integer(4)) + "}}";
}

void NsightText::put_kernel(const SqliteRows& row) {
  begin_event("kernel", row.text(5), row);
  put_stream(row.integer(2), row.integer(3), row.integer(4));
  text_ += "}}";
}

void NsightText::put_graph(const SqliteRows& row) {
  begin_event("kernel", "CUDA graph " + std::to_string(row.integer(5)), row);
  put_stream(row.integer(2), row.integer(3), row.integer(4));
  text_ += "}}";
}

void NsightText::put_copy(const SqliteRows& row) {
  // CUpti_ActivityMemcpyKind and CUpti_ActivityMemoryKind
  constexpr std::array kWays{"Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                             "AtoD",    "DtoA", "DtoD", "HtoH", "PtoP"};
  constexpr std::array kMemories{"Pageable", "Pinned", "Device", "Array",
                                 "Managed",  "Device", "Managed"};
  const auto word = [](const auto& words, int64_t i) {
    return std::string(i >= 0 && i < int64_t(words.size()) ? words[size_t(i)] : "Unknown");
  };
  begin_event("gpu_memcpy",
              "Memcpy " + word(kWays, row.integer(5)) + " (" + word(kMemories, row.integer(6)) +
                  " -> " + word(kMemories, row.integer(7)) + ")",
              row);
  put_stream(row.integer(2), row.integer(3), row.integer(4));
  text_ += ",\"bytes\":" + std::to_string(row.integer(8)) + "}}";
}

void NsightText::put_set(const SqliteRows& row) {
  begin_event("gpu_memset", "Memset (Device)", row);
  put_stream(row.integer(2), row.integer(3), row.integer(4));
  text_ += ",\"bytes\":" + std::to_string(row.integer(5)) + "}}";
}

}  // namespace maglev
