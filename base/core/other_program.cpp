#include "base/core/other_program.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <mutex>
#include <set>
#include <spawn.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/core/error.h"

extern char** environ;

namespace maglev {
namespace {

/// Numbers of the processes that run now. It is there until this process ends, whatever is destroyed
/// before.
struct RunningPrograms {
  std::mutex mutex;
  std::set<pid_t> pids;
};
RunningPrograms& running_programs() {
  static auto& all = *new RunningPrograms;
  return all;
}

std::string folder_of(pid_t pid) { return "/proc/" + std::to_string(pid); }

int64_t resident_of(pid_t pid) {
  // pages: of the address space, in memory, of those shared with files
  std::ifstream file(folder_of(pid) + "/statm");
  int64_t size = 0, resident = 0, shared = 0;
  return file >> size >> resident >> shared ? (resident - shared) * ::sysconf(_SC_PAGESIZE) : 0;
}

}  // namespace

ProgramsUse use_of_other_programs() {
  constexpr double kNanosecond_s = 1e-9;
  RunningPrograms& all = running_programs();
  std::lock_guard lock(all.mutex);
  ProgramsUse use{.running = int(all.pids.size())};
  for (const pid_t pid : all.pids) {
    const auto threads = trace::sum_of(trace::use_of_threads(folder_of(pid)));
    use.on_processor_s += kNanosecond_s * double(threads.on_processor);
    use.queued_s += kNanosecond_s * double(threads.queued);
    use.resident += resident_of(pid);
  }
  // nothing runs without a processor
  if (use.running > 0 && use.on_processor_s <= 0)
    use.on_processor_s = use.queued_s = std::numeric_limits<double>::quiet_NaN();
  return use;
}

std::vector<trace::ThreadUse> threads_of_other_programs() {
  RunningPrograms& all = running_programs();
  std::lock_guard lock(all.mutex);
  std::vector<trace::ThreadUse> threads;
  for (const pid_t pid : all.pids)
    std::ranges::move(trace::use_of_threads(folder_of(pid)), std::back_inserter(threads));
  std::ranges::sort(threads, {}, &trace::ThreadUse::tid);
  return threads;
}

int64_t OtherProgram::resident() const { return pid_ > 0 ? resident_of(pid_) : 0; }

void OpenFile::close() {
  if (number_ >= 0) ::close(number_);
  number_ = -1;
}

OtherProgram::OtherProgram(const std::string& path, const std::vector<std::string>& words,
                           const std::string& where) {
  int ends[2];
  said_.take(::memfd_create("said", MFD_CLOEXEC));
  if (said_.get() < 0 || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error(where + path + " cannot be started: " + std::strerror(errno));
  OpenFile its_end;
  socket_.take(ends[0]), its_end.take(ends[1]);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, its_end.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, said_.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, said_.get(), STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::vector<char*> given{const_cast<char*>(path.c_str())};
  for (const std::string& word : words) given.push_back(const_cast<char*>(word.c_str()));
  given.push_back(nullptr);
  const int error = ::posix_spawnp(&pid_, path.c_str(), &files, &attributes, given.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    pid_ = -1;
    throw Error(where + path + " cannot be started: " + std::strerror(error));
  }
  RunningPrograms& all = running_programs();
  std::lock_guard lock(all.mutex);
  all.pids.insert(pid_);
}

OtherProgram::~OtherProgram() { kill(); }

void OtherProgram::kill() {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
  end();
}

bool OtherProgram::send(const void* bytes, size_t count) const {
  const char* next = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t sent = ::send(socket_.get(), next, count, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    next += sent, count -= size_t(sent);
  }
  return true;
}

bool OtherProgram::running() { return pid_ > 0 && !reap(WNOHANG); }

bool OtherProgram::end() {
  socket_.close();
  if (pid_ > 0) reap(0);
  return content_;
}

bool OtherProgram::reap(int options) {
  int status = 1;
  pid_t ended = 0;
  while ((ended = ::waitpid(pid_, &status, options)) < 0 && errno == EINTR) continue;
  if (ended == 0) return false;
  // where this process ignores SIGCHLD, the system waits in its place and tells nobody
  if (ended < 0 && errno == ECHILD)
    note_ = "how it ended was not told; do not ignore SIGCHLD in this program";
  {
    RunningPrograms& all = running_programs();
    std::lock_guard lock(all.mutex);
    all.pids.erase(pid_);
  }
  pid_ = -1;
  content_ = ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (ended > 0 && WIFSIGNALED(status))
    ending_ =
        "signal " + std::to_string(WTERMSIG(status)) + " (" + ::strsignal(WTERMSIG(status)) + ")";
  else if (ended > 0) ending_ = "exit status " + std::to_string(WEXITSTATUS(status));
  return true;
}

// the place where it writes next is ours too
void OtherProgram::limit_said(size_t most) {
  struct stat about {};
  if (::fstat(said_.get(), &about) != 0 || size_t(about.st_size) <= most) return;
  if (::lseek(said_.get(), 0, SEEK_SET) == 0 && ::ftruncate(said_.get(), 0) != 0) return;
}

std::string OtherProgram::said(size_t most) const {
  if (!note_.empty()) return note_;
  const off_t bytes = ::lseek(said_.get(), 0, SEEK_END),
              begin = std::max<off_t>(0, bytes - off_t(most));
  std::string text(size_t(bytes - begin), '\0');
  text.resize(size_t(std::max<ssize_t>(0, ::pread(said_.get(), text.data(), text.size(), begin))));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text.empty() ? "nothing" : text;
}

}  // namespace maglev
