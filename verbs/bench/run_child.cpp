#include "verbs/bench/run_child.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>
#include <unistd.h>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/metrics/rows.h"
#include "verbs/child.h"

namespace maglev::verbs::bench {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(20);
constexpr size_t kMaxFileBytes = size_t(1) << 30;
constexpr int kStopped = 130;  // train's exit status when a signal stopped it

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

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

Speed speed_of(const std::string& metrics) {
  Speed speed;
  int64_t first_step = 0;
  double first_seconds = 0;
  int64_t rows = 0;
  MetricReader reader;
  for (size_t begin = 0, end; (end = metrics.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    if (!reader.read(std::string_view(metrics).substr(begin, end - begin))) continue;
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

Speed measure_training(const std::vector<std::string>& words, double seconds) {
  const Scratch scratch;
  const std::string run = scratch.path() + "/run", log = scratch.path() + "/log";
  std::vector<std::string> command = {"train"};
  command.insert(command.end(), words.begin(), words.end());
  command.insert(command.end(), {"--sinks", "jsonl", "--out", run});
  Child child(command, log);
  while (child.running()) {
    const Speed speed = speed_of(text_of(run + "/" + kMetricsFile));
    if (speed.seconds >= seconds && speed.updates >= 2) break;
    std::this_thread::sleep_for(kPoll);
  }
  child.signal(SIGINT);
  const int status = child.wait();
  if (status != 0 && status != kStopped) throw Error(last_line(text_of(log)));
  return speed_of(text_of(run + "/" + kMetricsFile));
}

}  // namespace maglev::verbs::bench
