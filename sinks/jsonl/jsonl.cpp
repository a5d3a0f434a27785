// metrics.jsonl: one JSON object a line with step, seconds, steps_per_second, return_mean, episodes
// and then the row's values by name; what is not finite is null. An event, such as an evaluation,
// has step, seconds and its values alone. Each line is given to the system at once, so a killed run
// keeps it.
#include <charconv>
#include <cmath>

#include "base/core/file.h"
#include "base/core/json_quoted.h"
#include "base/metrics/rows.h"
#include "base/metrics/sink.h"

namespace maglev::sinks::jsonl {
namespace {

constexpr const char* kFixedKeys[] = {"step", "seconds", "steps_per_second", "return_mean",
                                      "episodes"};

// the shortest digits that read back to the same number
std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

std::string line_of(const MetricRow& row) {
  std::string line =
      "{\"step\": " + std::to_string(row.step) + ", \"seconds\": " + number(row.seconds);
  if (!row.event)
    line += ", \"steps_per_second\": " + number(row.steps_per_second) +
            ", \"return_mean\": " + number(row.return_mean) +
            ", \"episodes\": " + std::to_string(row.episodes);
  for (const auto& [name, value] : row.values) {
    bool taken = false;
    for (const char* key : kFixedKeys) taken = taken || name == key;
    line += ", " + json_quoted(taken ? "value/" + name : name) + ": " + number(value);
  }
  return line + "}\n";
}

std::string path_in(const std::string& dir) { return dir + "/" + kMetricsFile; }

// a new run begins with an empty file, a continued one with the rows up to its checkpoint
std::string prepared(const RunInfo& info) {
  const std::string path = path_in(info.dir);
  const bool there = path_exists(path);
  if (info.resumed_at < 0 || !there) {
    if (there) write_atomic(path, "");
    return path;
  }
  MetricReader reader;
  const auto kept = [&](std::string_view line) {
    return reader.read(line) && reader.step() <= double(info.resumed_at);
  };
  // a line at a time: the file of a long run may be larger than memory
  uint64_t bytes = 0;
  read_lines(path, [&](std::string_view line) { bytes += kept(line) ? line.size() + 1 : 0; });
  if (bytes == file_bytes(path)) return path;
  const std::string temporary = temporary_beside(path);
  FileWriter out(temporary);
  read_lines(path, [&](std::string_view line) {
    if (kept(line)) out.write(std::string(line) + "\n");
  });
  out.finish();
  rename_path(temporary, path);
  return path;
}

void read_back(const std::string& dir, const std::function<void(const PastRow&)>& row) {
  each_metric_row(dir, [&](const MetricReader& read) {
    const double mean = read.value("return_mean");
    if (std::isnan(mean)) return;
    const double episodes = read.value("episodes");
    row({.step = int64_t(read.step()),
         .episodes = std::isnan(episodes) ? 0 : int64_t(episodes),
         .return_mean = mean});
  });
}

class Jsonl : public MetricSink {
 public:
  explicit Jsonl(const RunInfo& info) : file_(prepared(info)) {}

  void write(const MetricRow& row) override {
    file_.append(line_of(row));
    file_.flush();
  }
  void sync() override { file_.sync(); }
  void close(const std::string&) override { file_.sync(); }

 private:
  AppendFile file_;
};

}  // namespace

SinkEntry entry() {
  return {.name = "jsonl",
          .summary = "metrics.jsonl in the run folder, one JSON object a line",
          .on_by_default = true,
          .open = [](const RunInfo& info) -> std::unique_ptr<MetricSink> {
            return std::make_unique<Jsonl>(info);
          },
          .read_back = read_back};
}

}  // namespace maglev::sinks::jsonl
