#include "verbs/bench/run_child.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>
#include <unistd.h>

#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/printed.h"
#include "base/core/split.h"
#include "base/metrics/rows.h"
#include "engine/train/signals.h"
#include "verbs/child.h"

namespace maglev::verbs::bench {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(20);
constexpr size_t kMaxFileBytes = size_t(1) << 30;

// a folder of its own, gone with the object
class Scratch {
 public:
  Scratch() : path_((std::filesystem::temp_directory_path() / "maglev-bench-XXXXXX").string()) {
    if (!mkdtemp(path_.data()))
      throw Error("[bench] no temporary folder: " + std::string(std::strerror(errno)) +
                  "; set TMPDIR to a folder that can be written");
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string text_of(const std::string& path) {
  return path_exists(path) ? read_file(path, kMaxFileBytes) : "";
}

// its last line, or what killed it where it had no time to say so
std::string said_at_the_end(std::string text, int status) {
  if (status > 128)
    return status == 128 + SIGKILL ? "killed, as a system out of memory does"
                                   : "ended by signal " + std::to_string(status - 128);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.empty() ? "ended with status " + std::to_string(status)
                      : text.substr(text.rfind('\n') + 1);
}

// whether a row has figures of an update
bool learned(const MetricReader& row) {
  return std::ranges::any_of(row.figures(), [&](const MetricReader::Figure& figure) {
    return row.columns()[figure.column].starts_with("loss/") && !std::isnan(figure.value);
  });
}

}  // namespace

std::vector<std::string> child_words(const Arguments& arguments, const AlgoOnEnv& pair) {
  std::vector<std::string> words = {pair.algo, pair.env};
  if (arguments.has("--bare")) words.push_back("--bare");
  if (const auto file = arguments.value("--config")) words.insert(words.end(), {"--config", *file});
  return words;
}

std::vector<std::string> joined_settings(std::vector<std::string> words,
                                         const std::vector<std::string>& later) {
  std::erase_if(words, [&](const std::string& word) {
    return std::any_of(later.begin(), later.end(),
                       [&](const std::string& one) { return name_part(one) == name_part(word); });
  });
  words.insert(words.end(), later.begin(), later.end());
  return words;
}

Speed speed_of(const std::string& metrics) {
  Speed speed;
  int64_t first_step = 0;
  double first_seconds = 0;
  int64_t rows = 0;
  MetricReader reader;
  for (size_t begin = 0, end; (end = metrics.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    if (!reader.read(std::string_view(metrics).substr(begin, end - begin))) continue;
    if (rows == 0 && !learned(reader)) continue;
    const int64_t step = int64_t(reader.step());
    const double seconds = reader.value("seconds");
    if (rows++ == 0) {
      first_step = step;
      first_seconds = seconds;
    } else if (seconds > first_seconds) {
      speed = {.steps_per_second = double(step - first_step) / (seconds - first_seconds),
               .updates = rows - 1,
               .seconds = seconds - first_seconds};
    }
  }
  return speed;
}

Speed measure_training(const std::vector<std::string>& words, double seconds, double limit) {
  const double end = steady_s() + limit;
  const Scratch scratch;
  const std::string run = scratch.path() + "/run", log = scratch.path() + "/log";
  std::vector<std::string> command = {"train"};
  command.insert(command.end(), words.begin(), words.end());
  command.insert(command.end(), {"--sinks", "jsonl", "--out", run});
  Child child(command, log);
  bool enough = false;
  while (!enough && child.running() && steady_s() < end) {
    if (SignalGuard::leave()) throw Interrupted{};
    const Speed speed = speed_of(text_of(run + "/" + kMetricsFile));
    enough = speed.seconds >= seconds && speed.updates >= 2;
    if (!enough) std::this_thread::sleep_for(kPoll);
  }
  // what it would save is thrown away
  const bool late = !enough && child.running();
  child.signal(SIGKILL);
  const int status = child.wait();
  Speed speed = speed_of(text_of(run + "/" + kMetricsFile));
  if (late && speed.updates < 2) throw Error(printed("no figure within %.1f s", limit));
  if (!enough && !late && status != 0) throw Error(said_at_the_end(text_of(log), status));
  speed.peak_bytes = child.peak_bytes();
  return speed;
}

std::string measure_round(const std::vector<std::string>& words, double seconds) {
  const Scratch scratch;
  const std::string log = scratch.path() + "/log";
  std::vector<std::string> command = {"bench", "run"};
  command.insert(command.end(), words.begin(), words.end());
  command.insert(command.end(),
                 {"--lines", "--rounds", "1", "--seconds", std::to_string(std::llround(seconds))});
  Child child(command, log);
  while (child.running()) {
    if (SignalGuard::leave()) throw Interrupted{};
    std::this_thread::sleep_for(kPoll);
  }
  const int status = child.wait();
  const std::string said = said_at_the_end(text_of(log), status);
  if (status != 0) throw Error(said);
  return said;
}

}  // namespace maglev::verbs::bench
