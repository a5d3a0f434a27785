#include "verbs/bench/run_child.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <spawn.h>
#include <thread>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include "base/core/error.h"
#include "base/core/file.h"

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

// the program run as a child whose output goes to `log`
class Child {
 public:
  Child(const std::vector<std::string>& words, const std::string& log) {
    const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    std::vector<char*> argv = {const_cast<char*>(program.c_str())};
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    const int failed = posix_spawn(&pid_, program.c_str(), &files, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    if (failed)
      throw Error("[bench] the program could not be started again: " +
                  std::string(std::strerror(failed)));
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (!ended_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  bool running() {
    if (!ended_ && waitpid(pid_, &status_, WNOHANG) == pid_) ended_ = true;
    return !ended_;
  }
  // asks it to stop; returns its exit status, 128 + the signal that killed it
  int stop() {
    if (running()) {
      kill(pid_, SIGINT);
      waitpid(pid_, &status_, 0);
      ended_ = true;
    }
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  }

 private:
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

}  // namespace

Speed speed_of(const std::string& metrics) {
  Speed speed;
  int64_t first_step = 0;
  double first_seconds = 0;
  int64_t rows = 0;
  for (size_t begin = 0, end; (end = metrics.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const auto row =
        nlohmann::json::parse(metrics.begin() + ptrdiff_t(begin), metrics.begin() + ptrdiff_t(end));
    const int64_t step = row.at("step");
    const double seconds = row.at("seconds");
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
    const Speed speed = speed_of(text_of(run + "/metrics.jsonl"));
    if (speed.seconds >= seconds && speed.updates >= 2) break;
    std::this_thread::sleep_for(kPoll);
  }
  const int status = child.stop();
  if (status != 0 && status != kStopped) throw Error(last_line(text_of(log)));
  return speed_of(text_of(run + "/metrics.jsonl"));
}

}  // namespace maglev::verbs::bench
