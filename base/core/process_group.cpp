#include "base/core/process_group.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <fstream>
#include <sched.h>
#include <unistd.h>

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/core/bfloat16.h"
#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/core/thread_pool.h"

namespace maglev {
namespace {

// bytes a process shows at once; what it never writes takes no memory
constexpr size_t kPlace = size_t(32) << 20;
// up to here every process adds all values itself: one meeting instead of two
constexpr size_t kSmall = size_t(32) << 10;
constexpr int kLooksAwake = 20'000;  // at another's count before sleeping
constexpr timespec kAsleep = {.tv_sec = 0, .tv_nsec = 100'000'000};  // between looks at the others
constexpr double kLate = 60;    // seconds after which the leader names who it waits for
constexpr double kEnding = 10;  // seconds that the others have to end
constexpr int kNotStarted = 127;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

float value_of(uint16_t bits) {
  const uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}
float value_of(float value) { return value; }
double value_of(double value) { return value; }
void put(uint16_t& to, float value) { to = bfloat16_bits(value); }
template <class T>
void put(T& to, T value) {
  to = value;
}

// out[i] = of[0][i] + of[1][i] + ..., in this order
template <class T>
void add_in_order(const std::vector<const T*>& of, size_t count, T* out) {
  // in pieces that stay in the first cache
  constexpr size_t kPiece = 1024;
  decltype(value_of(T())) sums[kPiece];
  for (size_t begin = 0; begin < count; begin += kPiece) {
    const size_t n = std::min(kPiece, count - begin);
    for (size_t i = 0; i < n; ++i) sums[i] = value_of(of[0][begin + i]);
    for (size_t r = 1; r < of.size(); ++r)
      for (size_t i = 0; i < n; ++i) sums[i] += value_of(of[r][begin + i]);
    for (size_t i = 0; i < n; ++i) put(out[begin + i], sums[i]);
  }
}

// between fork and exec nothing may be called that could take a lock another thread held
[[noreturn]] void become(char* const* argv, int memory, pid_t parent) {
  // Ctrl-C in a terminal is for the leader
  setpgid(0, 0);
  // how the run ends is the leader's to say
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) std::signal(signal, SIG_IGN);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // it may have ended before that was asked for
  if (getppid() != parent) _exit(kNotStarted);
  const int nowhere = open("/dev/null", O_RDWR);
  dup2(nowhere, STDIN_FILENO);
  dup2(nowhere, STDOUT_FILENO);
  fcntl(memory, F_SETFD, 0);
  execv(argv[0], argv);
  _exit(kNotStarted);
}

// what the system says of a processor; 0: nothing
int topology_of(int cpu, const char* what) {
  int number = 0;
  std::ifstream("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/" + what) >>
      number;
  return number;
}

// Processors are dealt out, so that each process has those that are near each other: of a package,
// and both threads of a core.
void take_processors(int rank, int size) {
  cpu_set_t all, own;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return;
  std::vector<std::array<int, 3>> near;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &all))
      near.push_back({topology_of(cpu, "physical_package_id"), topology_of(cpu, "core_id"), cpu});
  const int count = int(near.size());
  if (count < size) return;
  std::sort(near.begin(), near.end());
  CPU_ZERO(&own);
  for (int i = rank * count / size; i < (rank + 1) * count / size; ++i)
    CPU_SET(near[size_t(i)][2], &own);
  sched_setaffinity(0, sizeof own, &own);
}

std::string ending_of(int rank, int status) {
  const std::string process = "[processes] process " + std::to_string(rank) + " of the run ";
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotStarted)
    return process + "could not be started: is the program still where it was?";
  const std::string resume = "; resume the run from its newest checkpoint";
  if (WIFEXITED(status))
    return process + "ended: exit status " + std::to_string(WEXITSTATUS(status)) + resume;
  const int signal = WTERMSIG(status);
  return process + "ended: signal " + std::to_string(signal) + " (" + strsignal(signal) + ")" +
         (signal == SIGKILL ? ", by the system where memory did not suffice, if by nobody else"
                            : "") +
         resume;
}

size_t shared_bytes(size_t header, int size) { return header + 2 * size_t(size) * kPlace; }

}  // namespace

struct ProcessGroup::Shared {
  struct alignas(128) Member {
    std::atomic<uint32_t> arrived;  ///< how often it has come
    std::atomic<uint32_t> waiting;  ///< who sleeps until it comes again
    uint64_t doing[2];              ///< in calls of even and odd number
    std::atomic<bool> failed;
    char failure[2000];  ///< why, where it has
  };

  int size;
  pid_t leader;
  Member members[kMost];
  alignas(4096) std::byte places[];  ///< [2, size, kPlace]
};

int64_t ProcessGroup::bytes(int size) { return int64_t(shared_bytes(sizeof(Shared), size)); }

int ProcessGroup::size() const { return shared_->size; }

ProcessGroup::ProcessGroup(int rank, int size, int memory)
    : rank_(rank), memory_(memory), bytes_(shared_bytes(sizeof(Shared), size)) {
  CPU_ZERO(&processors_);
  void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (at == MAP_FAILED)
    throw Error("[processes] they share " + std::to_string(bytes_ >> 20) +
                " MiB of memory, and the system does not give it (" + strerror(errno) +
                "); use fewer processes, or raise the limits of this one (ulimit -v)");
  shared_ = static_cast<Shared*>(at);
}

std::unique_ptr<ProcessGroup> ProcessGroup::lead(int size,
                                                 const std::vector<std::string>& command) {
  MAGLEV_ASSERT(size > 1 && size <= kMost, "a leader has others to lead");
  const int memory = memfd_create("maglev", MFD_CLOEXEC);
  if (memory < 0 || ftruncate(memory, off_t(shared_bytes(sizeof(Shared), size))) != 0)
    throw Error("[processes] no memory can be shared: " + std::string(strerror(errno)));
  std::unique_ptr<ProcessGroup> group(new ProcessGroup(0, size, memory));
  group->shared_->size = size;
  group->shared_->leader = getpid();
  group->looks_ = usable_cpus() >= size ? kLooksAwake : 0;
  group->start_others(command);
  sched_getaffinity(0, sizeof group->processors_, &group->processors_);
  take_processors(0, size);
  return group;
}

void ProcessGroup::start_others(const std::vector<std::string>& command) {
  const pid_t parent = getpid();
  children_.assign(size_t(size()), 0);
  for (int rank = 1; rank < size(); ++rank) {
    const std::string place =
        std::to_string(memory_) + ":" + std::to_string(rank) + ":" + std::to_string(size());
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(const_cast<char*>(place.c_str()));
    argv.push_back(nullptr);
    const pid_t child = fork();
    if (child == 0) become(argv.data(), memory_, parent);
    if (child < 0)
      throw Error("[processes] process " + std::to_string(rank) +
                  " cannot be started: " + strerror(errno));
    children_[size_t(rank)] = child;
  }
}

std::unique_ptr<ProcessGroup> ProcessGroup::join(const std::string& place) {
  int memory = -1, rank = -1, size = -1;
  if (std::sscanf(place.c_str(), "%d:%d:%d", &memory, &rank, &size) != 3 || rank < 1 ||
      rank >= size || size > kMost)
    throw Error("[processes] '" + place +
                "' is no place in a run: processes of a run are started by the first of them");
  fcntl(memory, F_SETFD, FD_CLOEXEC);
  std::unique_ptr<ProcessGroup> group(new ProcessGroup(rank, size, memory));
  if (group->size() != size || group->shared_->leader != getppid())
    throw Error("[processes] '" + place + "' is of a run that has ended");
  group->looks_ = usable_cpus() >= size ? kLooksAwake : 0;
  take_processors(rank, size);
  return group;
}

ProcessGroup::~ProcessGroup() {
  for (const pid_t child : children_)
    if (child > 0) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  if (rank_ == 0 && CPU_COUNT(&processors_) > 0)
    sched_setaffinity(0, sizeof processors_, &processors_);
  munmap(shared_, bytes_);
  close(memory_);
}

std::byte* ProcessGroup::place_of(int rank) const {
  return shared_->places + ((calls_ & 1) * size_t(size()) + size_t(rank)) * kPlace;
}

void ProcessGroup::arrive() {
  auto& own = shared_->members[rank_];
  own.arrived.store(++arrivals_);
  if (own.waiting.load() > 0)
    syscall(SYS_futex, &own.arrived, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void ProcessGroup::wait_for(int rank) {
  auto& other = shared_->members[rank];
  // differences, for counts begin anew at 2^32
  const auto there = [&](uint32_t count) { return int32_t(count - arrivals_) >= 0; };
  for (int i = 0; i < looks_; ++i, pause())
    if (there(other.arrived.load(std::memory_order_acquire))) return;
  // it takes longer: asleep until it comes, with a look at all now and then
  const double begin = steady_s();
  bool named = rank_ > 0;
  other.waiting.fetch_add(1);
  for (uint32_t count; !there(count = other.arrived.load());) {
    syscall(SYS_futex, &other.arrived, FUTEX_WAIT, count, &kAsleep, nullptr, 0);
    try {
      look_after_others();
    } catch (...) {
      other.waiting.fetch_sub(1);
      throw;
    }
    if (named || steady_s() - begin < kLate) continue;
    named = true;
    std::fprintf(stderr, "maglev: the run has waited %.0f s for process %d of it, pid %d\n", kLate,
                 rank, int(children_[size_t(rank)]));
  }
  other.waiting.fetch_sub(1);
}

void ProcessGroup::meet() {
  arrive();
  for (int rank = 0; rank < size(); ++rank)
    if (rank != rank_) wait_for(rank);
}

void ProcessGroup::meet_for(Call call, size_t bytes) {
  const uint64_t doing = uint64_t(call) << 56 | bytes;
  shared_->members[rank_].doing[calls_ & 1] = doing;
  meet();
  for (int rank = 0; rank < size(); ++rank)
    if (shared_->members[rank].doing[calls_ & 1] != doing)
      throw Gone("[processes] process " + std::to_string(rank) +
                 " of the run is at something else than process " + std::to_string(rank_) +
                 "; a fault of this program, please report it");
}

void ProcessGroup::look_after_others() {
  const std::lock_guard lock(mutex_);
  // one that fails by itself says why; one that is killed does not
  for (int rank = 0; rank < size() && gone_.empty(); ++rank)
    if (rank != rank_ && shared_->members[rank].failed.load())
      gone_ = shared_->members[rank].failure;
  for (size_t rank = 0; rank < children_.size() && gone_.empty(); ++rank) {
    int status = 0;
    if (children_[rank] <= 0 || waitpid(children_[rank], &status, WNOHANG) <= 0) continue;
    children_[rank] = 0;
    const bool said = shared_->members[rank].failed.load();
    gone_ = said ? shared_->members[rank].failure : ending_of(int(rank), status);
  }
  if (gone_.empty() && rank_ > 0 && getppid() != shared_->leader)
    gone_ = "[processes] the first process of the run has ended";
  // also who asks again hears of it
  if (!gone_.empty()) throw Gone(gone_);
}

template <class T>
void ProcessGroup::add_up(T* values, size_t count) {
  std::vector<const T*> all;
  for (size_t begin = 0; begin < count; begin += kPlace / sizeof(T), ++calls_) {
    const size_t n = std::min(kPlace / sizeof(T), count - begin);
    all.clear();
    for (int rank = 0; rank < size(); ++rank)
      all.push_back(reinterpret_cast<const T*>(place_of(rank)));
    std::memcpy(place_of(rank_), values + begin, n * sizeof(T));
    meet_for(Call::sum, n * sizeof(T));
    if (n * sizeof(T) <= kSmall) {
      add_in_order(all, n, values + begin);
      continue;
    }
    // each process adds a share, which none but it reads before, and shows the sum in its own place
    const size_t share = (n + size_t(size()) - 1) / size_t(size());
    const auto begin_of = [&](int rank) { return std::min(n, size_t(rank) * share); };
    const size_t first = begin_of(rank_), own = begin_of(rank_ + 1) - first;
    for (const T*& part : all) part += first;
    add_in_order(all, own, reinterpret_cast<T*>(place_of(rank_)) + first);
    meet();
    for (int rank = 0; rank < size(); ++rank) {
      const size_t from = begin_of(rank), many = begin_of(rank + 1) - from;
      std::memcpy(values + begin + from, reinterpret_cast<const T*>(place_of(rank)) + from,
                  many * sizeof(T));
    }
  }
}

void ProcessGroup::sum(float* values, size_t count) { add_up(values, count); }
void ProcessGroup::sum(double* values, size_t count) { add_up(values, count); }
void ProcessGroup::sum(uint16_t* values, size_t count) { add_up(values, count); }

void ProcessGroup::gather(const void* own, size_t bytes, void* all) {
  const auto* from = static_cast<const std::byte*>(own);
  auto* to = static_cast<std::byte*>(all);
  for (size_t begin = 0; begin < bytes; begin += kPlace, ++calls_) {
    const size_t n = std::min(kPlace, bytes - begin);
    std::memcpy(place_of(rank_), from + begin, n);
    meet_for(Call::gather, n);
    for (int rank = 0; rank < size(); ++rank)
      std::memcpy(to + size_t(rank) * bytes + begin, place_of(rank), n);
  }
}

void ProcessGroup::tell(const std::string& text) {
  MAGLEV_ASSERT(text.size() + sizeof(size_t) <= kPlace, "the leader's word fits its place");
  const size_t bytes = text.size();
  std::memcpy(place_of(0), &bytes, sizeof bytes);
  std::memcpy(place_of(0) + sizeof bytes, text.data(), bytes);
  meet_for(Call::word, 0);
  ++calls_;
}

std::string ProcessGroup::hear() {
  meet_for(Call::word, 0);
  size_t bytes = 0;
  std::memcpy(&bytes, place_of(0), sizeof bytes);
  std::string text(reinterpret_cast<const char*>(place_of(0)) + sizeof bytes, bytes);
  ++calls_;
  return text;
}

void ProcessGroup::fail(const std::string& what) noexcept {
  auto& own = shared_->members[rank_];
  const size_t bytes = std::min(what.size(), sizeof own.failure - 1);
  std::memcpy(own.failure, what.data(), bytes);
  own.failure[bytes] = 0;
  own.failed.store(true);
}

std::string ProcessGroup::lost() const {
  const std::lock_guard lock(mutex_);
  if (!gone_.empty()) return gone_;
  for (size_t rank = 1; rank < children_.size(); ++rank) {
    if (shared_->members[rank].failed.load()) return shared_->members[rank].failure;
    siginfo_t info{};
    // looked at only: the loop's thread takes what became of it
    const pid_t child = children_[rank];
    if (child <= 0 || waitid(P_PID, id_t(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0) continue;
    const bool content = info.si_code == CLD_EXITED && info.si_status == 0;
    if (info.si_pid == child && !content)
      return "[processes] process " + std::to_string(rank) + " of the run ended";
  }
  return "";
}

void ProcessGroup::wait_for_end() {
  const double begin = steady_s();
  for (size_t rank = 1; rank < children_.size(); ++rank) {
    int status = 0;
    while (children_[rank] > 0) {
      {
        const std::lock_guard lock(mutex_);
        if (waitpid(children_[rank], &status, WNOHANG) != 0) children_[rank] = 0;
      }
      if (children_[rank] == 0) break;
      if (steady_s() - begin > kEnding)
        throw Error("[processes] process " + std::to_string(rank) + " of the run did not end");
      usleep(1000);
    }
    if (status != 0) throw Error(ending_of(int(rank), status));
  }
}

}  // namespace maglev
