// metrics.jsonl: one JSON object a line with step, seconds, steps_per_second, return_mean, episodes
// and then the row's values by name; what is not finite is null. Each line is given to the system
// at once, so a killed run keeps it.
#include <charconv>
#include <cmath>

#include <nlohmann/json.hpp>

#include "base/core/file.h"
#include "base/metrics/sink.h"

namespace maglev::sinks::jsonl {
namespace {

constexpr size_t kMaxFileBytes = size_t(4) << 30;
constexpr const char* kFixedKeys[] = {"step", "seconds", "steps_per_second", "return_mean",
                                      "episodes"};

// the shortest digits that read back to the same number
std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string line_of(const MetricRow& row) {
  std::string line = "{\"step\": " + std::to_string(row.step) +
                     ", \"seconds\": " + number(row.seconds) +
                     ", \"steps_per_second\": " + number(row.steps_per_second) +
                     ", \"return_mean\": " + number(row.return_mean) +
                     ", \"episodes\": " + std::to_string(row.episodes);
  for (const auto& [name, value] : row.values) {
    bool taken = false;
    for (const char* key : kFixedKeys) taken = taken || name == key;
    line += ", " + quoted(taken ? "value/" + name : name) + ": " + number(value);
  }
  return line + "}\n";
}

// whole lines of steps up to and including `last_step`
std::string lines_until(const std::string& text, int64_t last_step) {
  std::string kept;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    auto json = nlohmann::json::parse(text.begin() + ptrdiff_t(begin),
                                      text.begin() + ptrdiff_t(end), nullptr, false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) continue;
    if (json["step"].get<int64_t>() <= last_step) kept.append(text, begin, end + 1 - begin);
  }
  return kept;
}

// a new run begins with an empty file, a continued one with the rows before its checkpoint
std::string prepared(const RunInfo& info) {
  std::string path = info.dir + "/metrics.jsonl";
  std::string before = path_exists(path) ? read_file(path, kMaxFileBytes) : "";
  std::string kept = info.resumed_at < 0 ? "" : lines_until(before, info.resumed_at);
  if (kept != before) write_atomic(path, kept);
  return path;
}

class Jsonl : public MetricSink {
 public:
  explicit Jsonl(const RunInfo& info) : file_(prepared(info)) {}

  void write(const MetricRow& row) override {
    file_.append(line_of(row));
    file_.flush();
  }
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
          }};
}

}  // namespace maglev::sinks::jsonl
