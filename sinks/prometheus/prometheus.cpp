// metrics.prom in the run folder: each metric's newest value as Prometheus' text exposition format
// 0.0.4 has it, for a collector of text files (node_exporter's --collector.textfile.directory).
// Written anew, as a whole, once a second at most.
#include <charconv>
#include <cmath>
#include <vector>

#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/core/file.h"
#include "base/metrics/sink.h"

namespace maglev::sinks::prometheus {
namespace {

constexpr double kBetweenFiles_s = 1;

// "loss/policy" -> "maglev_loss_policy"
std::string metric_name(const std::string& name) {
  std::string text = "maglev_";
  for (char c : name) {
    const bool kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    text += kept ? c : '_';
  }
  return text;
}

std::string label(const std::string& value) {
  std::string text = "\"";
  for (char c : value) {
    if (c == '\n') text += "\\n";
    else if (c == '"' || c == '\\') (text += '\\') += c;
    else text += c;
  }
  return text + "\"";
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

class Prometheus : public MetricSink {
 public:
  explicit Prometheus(const RunInfo& info)
      : path_(info.dir + "/metrics.prom"),
        labels_("{run=" + label(info.dir.substr(info.dir.find_last_of('/') + 1)) +
                ",algorithm=" + label(info.algo) + ",environment=" + label(info.env) + "} ") {}

  void write(const MetricRow& row) override {
    if (!row.event) {
      set("step", double(row.step));
      set("seconds", row.seconds);
      set("steps_per_second", row.steps_per_second);
      set("return_mean", row.return_mean);
      set("episodes", double(row.episodes));
    }
    for (const auto& [name, value] : row.values) set(name, value);
    changed_ = true;
    write_due();
  }
  void tick(const Progress&) override { write_due(); }
  void close(const std::string&) override {
    written_s_ = -kBetweenFiles_s;
    write_due();
  }

 private:
  void set(const std::string& name, double value) {
    const std::string metric = metric_name(name);
    for (auto& [known, held] : newest_)
      if (known == metric) return void(held = value);
    newest_.emplace_back(metric, value);
  }

  void write_due() {
    if (!changed_ || steady_s() - written_s_ < kBetweenFiles_s) return;
    changed_ = false;
    written_s_ = steady_s();
    std::string text;
    for (const auto& [name, value] : newest_)
      text += "# TYPE " + name + " gauge\n" + name + labels_ + number(value) + "\n";
    try {
      write_atomic(path_, text);
    } catch (const Error&) {
      // a full disk for a moment: the next one holds all of it
    }
  }

  std::string path_, labels_;
  std::vector<std::pair<std::string, double>> newest_;
  double written_s_ = -kBetweenFiles_s;
  bool changed_ = false;
};

}  // namespace

SinkEntry entry() {
  return {.name = "prometheus",
          .summary = "metrics.prom in the run folder, the newest values for Prometheus",
          .on_by_default = false,
          .open = [](const RunInfo& info) -> std::unique_ptr<MetricSink> {
            return std::make_unique<Prometheus>(info);
          }};
}

}  // namespace maglev::sinks::prometheus
