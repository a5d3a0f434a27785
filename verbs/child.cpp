#include "verbs/child.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <string_view>
#include <unistd.h>
#include <utility>

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/core/error.h"

namespace maglev {
namespace {

constexpr int kNotStarted = 127;

// between fork and exec nothing may be called that could take a lock another thread held
[[noreturn]] void become(const char* program, char* const* argv, char* const* environment, int log,
                         pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  // it may have ended before that was asked for
  if (getppid() != parent) _exit(kNotStarted);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  // asked of it before it listens; what is ignored stays so
  signal(SIGUSR1, SIG_IGN);
  signal(SIGUSR2, SIG_IGN);
  execve(program, argv, environment);
  _exit(kNotStarted);
}

// ours, but for the GPUs that it sees
std::vector<char*> environment_with(const std::string& gpu_line) {
  const std::string_view name = std::string_view(gpu_line).substr(0, gpu_line.find('=') + 1);
  std::vector<char*> lines;
  for (char** line = environ; *line; ++line)
    if (name.empty() || !std::string_view(*line).starts_with(name)) lines.push_back(*line);
  if (!gpu_line.empty()) lines.push_back(const_cast<char*>(gpu_line.c_str()));
  lines.push_back(nullptr);
  return lines;
}

}  // namespace

Child::Child(const std::vector<std::string>& words, const std::string& log,
             const std::string& gpu) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) throw Error("[" + log + "] cannot be written: " + std::strerror(errno));
  const std::string gpu_line = gpu.empty() ? "" : "CUDA_VISIBLE_DEVICES=" + gpu;
  const std::vector<char*> environment = environment_with(gpu_line);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) become(program.c_str(), argv.data(), environment.data(), file, parent);
  const int error = errno;
  close(file);
  if (pid_ < 0)
    throw Error("[process] the program could not be started again: " +
                std::string(std::strerror(error)));
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      status_(other.status_),
      peak_bytes_(other.peak_bytes_),
      ended_(other.ended_) {}

Child::~Child() {
  if (pid_ < 0 || ended_) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool Child::reap(int options) {
  rusage used{};
  if (wait4(pid_, &status_, options, &used) != pid_) return false;
  peak_bytes_ = int64_t(used.ru_maxrss) * 1024;
  return true;
}

bool Child::running() {
  if (!ended_ && reap(WNOHANG)) ended_ = true;
  return !ended_;
}

void Child::signal(int number) {
  if (running()) kill(pid_, number);
}

int Child::wait() {
  while (!ended_) {
    if (reap(0)) ended_ = true;
    else if (errno != EINTR) break;
  }
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
}

}  // namespace maglev
