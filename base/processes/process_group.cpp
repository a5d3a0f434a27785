#include "base/processes/process_group.h"

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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/core/bfloat16.h"
#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/core/spin.h"
#include "base/core/thread_pool.h"
#include "base/processes/socket.h"

namespace maglev {
namespace {

// bytes a process shows at once; what it never writes takes no memory
constexpr size_t kMostPlace = size_t(32) << 20, kLeastPlace = size_t(1) << 20;
// up to here every process adds all values itself: one meeting instead of two
constexpr size_t kSmall = size_t(32) << 10;
constexpr int kLooksAwake = 20'000;  // at another's count before sleeping
constexpr timespec kAsleep = {.tv_sec = 0, .tv_nsec = 100'000'000};  // between looks at the others
constexpr double kLate = 60;    // seconds after which the leader names who it waits for
constexpr double kEnding = 60;  // seconds that the others have to end
constexpr int kNotStarted = 127;

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

template <class T>
using Wide = decltype(value_of(T()));

// out[i] = before[i] + of[0][i] + of[1][i] + ..., in this order; without `before` from of[0] on.
// `out` may be `before`, or one of `of`
template <class T, class Out>
void add_in_order(const Wide<T>* before, const std::vector<const T*>& of, size_t count, Out* out) {
  // in pieces that stay in the first cache
  constexpr size_t kPiece = 1024;
  Wide<T> sums[kPiece];
  for (size_t begin = 0; begin < count; begin += kPiece) {
    const size_t n = std::min(kPiece, count - begin);
    for (size_t i = 0; i < n; ++i)
      sums[i] = before ? before[begin + i] : value_of(of[0][begin + i]);
    for (size_t r = before ? 0 : 1; r < of.size(); ++r)
      for (size_t i = 0; i < n; ++i) sums[i] += value_of(of[r][begin + i]);
    for (size_t i = 0; i < n; ++i) put(out[begin + i], sums[i]);
  }
}

// between fork and exec nothing may be called that could take a lock another thread held
[[noreturn]] void become(char* const* argv, int memory, pid_t parent) {
  // Ctrl-C in a terminal is for the leader
  setpgid(0, 0);
  // how the run ends is the leader's to say
  for (int signal : {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGXCPU, SIGXFSZ, SIGUSR1, SIGUSR2})
    std::signal(signal, SIG_IGN);
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

// `where`: " on node2", or nothing where there is one machine
std::string ending_of(int rank, const std::string& where, int status) {
  const std::string process =
      "[processes] process " + std::to_string(rank) + " of the run" + where + " ";
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

// of a machine that holds places of others too no more than of one that has as many processes
size_t place_bytes(int size, int here) {
  return std::max(kLeastPlace, kMostPlace * size_t(here) / size_t(size));
}
size_t shared_bytes(size_t header, int size, int here) {
  return header + 2 * size_t(size) * place_bytes(size, here);
}

}  // namespace

struct ProcessGroup::Shared {
  struct alignas(128) Member {
    std::atomic<uint32_t> arrived;  ///< how often it has come
    std::atomic<uint32_t> waiting;  ///< who sleeps until it comes again
    uint64_t doing[2];              ///< in calls of even and odd number
    std::atomic<bool> failed;
    char failure[2000];  ///< why, where it has
  };

  int size, here;  ///< processes of the run, and of this machine
  size_t place;    ///< bytes that a process shows at once
  int first;       ///< rank of the first of them, the head
  int processors;  ///< for each of them
  pid_t head;
  Member members[kMost];             ///< by place on this machine
  alignas(4096) std::byte places[];  ///< [2, size, place]
};

int64_t ProcessGroup::bytes(int size, int here) {
  return int64_t(shared_bytes(sizeof(Shared), size, here));
}

int ProcessGroup::size() const { return shared_->size; }
int ProcessGroup::here() const { return shared_->here; }
int ProcessGroup::first_here() const { return shared_->first; }
int ProcessGroup::processors() const { return shared_->processors; }

std::string ProcessGroup::where() const { return here() == size() ? "" : " on " + host_name(); }

ProcessGroup::ProcessGroup(int memory, size_t bytes) : memory_(memory), bytes_(bytes) {
  CPU_ZERO(&processors_);
  void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (at == MAP_FAILED)
    throw Error("[processes] they share " + std::to_string(bytes_ >> 20) +
                " MiB of memory, and the system does not give it (" + strerror(errno) +
                "); use fewer processes, or raise the limits of this one (ulimit -v)");
  shared_ = static_cast<Shared*>(at);
}

std::unique_ptr<ProcessGroup> ProcessGroup::lead(int size, const std::vector<std::string>& command,
                                                 std::unique_ptr<MachineLine> line) {
  MAGLEV_ASSERT(size > 1 && size <= kMost, "a leader has others to lead");
  const int machines = line ? line->run().machines : 1, here = size / machines;
  MAGLEV_ASSERT(here * machines == size, "machines have as many processes each");
  const int memory = memfd_create("maglev", MFD_CLOEXEC);
  const int64_t all = bytes(size, here);
  if (memory < 0 || ftruncate(memory, off_t(all)) != 0)
    throw Error("[processes] no memory can be shared: " + std::string(strerror(errno)));
  std::unique_ptr<ProcessGroup> group(new ProcessGroup(memory, size_t(all)));
  Shared& shared = *group->shared_;
  shared.size = size, shared.here = here;
  shared.place = place_bytes(size, here);
  shared.first = line ? line->machine() * here : 0;
  shared.processors = std::max(1, usable_cpus() / here);
  shared.head = getpid();
  group->rank_ = shared.first;
  group->looks_ = usable_cpus() >= here ? kLooksAwake : 0;
  group->start_others(command);
  sched_getaffinity(0, sizeof group->processors_, &group->processors_);
  take_processors(0, here);
  if (!line) return group;
  group->line_ = std::move(line);
  group->line_->while_waiting([group = group.get()] { group->look_after_others(); });
  return group;
}

void ProcessGroup::start_others(const std::vector<std::string>& command) {
  const pid_t parent = getpid();
  children_.assign(size_t(here()), 0);
  for (int local = 1; local < here(); ++local) {
    const std::string place =
        std::to_string(memory_) + ":" + std::to_string(local) + ":" + std::to_string(size());
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(const_cast<char*>(place.c_str()));
    argv.push_back(nullptr);
    const pid_t child = fork();
    if (child == 0) become(argv.data(), memory_, parent);
    if (child < 0)
      throw Error("[processes] process " + std::to_string(first_here() + local) +
                  " cannot be started: " + strerror(errno));
    children_[size_t(local)] = child;
  }
}

std::unique_ptr<ProcessGroup> ProcessGroup::join(const std::string& place) {
  int memory = -1, local = -1, size = -1;
  if (std::sscanf(place.c_str(), "%d:%d:%d", &memory, &local, &size) != 3 || local < 1 ||
      local >= size || size > kMost)
    throw Error("[processes] '" + place +
                "' is no place in a run: processes of a run are started by the first of them");
  fcntl(memory, F_SETFD, FD_CLOEXEC);
  struct stat file {};
  fstat(memory, &file);
  std::unique_ptr<ProcessGroup> group(new ProcessGroup(memory, size_t(file.st_size)));
  if (group->size() != size || group->shared_->head != getppid())
    throw Error("[processes] '" + place + "' is of a run that has ended");
  const int here = group->here();
  group->local_ = local;
  group->rank_ = group->first_here() + local;
  group->looks_ = usable_cpus() >= here ? kLooksAwake : 0;
  take_processors(local, here);
  return group;
}

ProcessGroup::~ProcessGroup() {
  for (const pid_t child : children_)
    if (child > 0) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  if (local_ == 0 && CPU_COUNT(&processors_) > 0)
    sched_setaffinity(0, sizeof processors_, &processors_);
  munmap(shared_, bytes_);
  close(memory_);
}

std::byte* ProcessGroup::place_of(int rank) const {
  return shared_->places + ((calls_ & 1) * size_t(size()) + size_t(rank)) * shared_->place;
}

void ProcessGroup::arrive() {
  auto& own = shared_->members[local_];
  own.arrived.store(++arrivals_);
  if (own.waiting.load() > 0)
    syscall(SYS_futex, &own.arrived, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void ProcessGroup::wait_for(int local) {
  auto& other = shared_->members[local];
  // differences, for counts begin anew at 2^32
  const auto there = [&](uint32_t count) { return int32_t(count - arrivals_) >= 0; };
  for (int i = 0; i < looks_; ++i, spin_pause())
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
                 local, int(children_[size_t(local)]));
  }
  other.waiting.fetch_sub(1);
}

void ProcessGroup::meet() {
  arrive();
  for (int local = 0; local < here(); ++local)
    if (local != local_) wait_for(local);
}

void ProcessGroup::meet_for(Call call, size_t bytes) {
  const uint64_t doing = number_of(call, bytes);
  shared_->members[local_].doing[calls_ & 1] = doing;
  meet();
  for (int local = 0; local < here(); ++local)
    if (shared_->members[local].doing[calls_ & 1] != doing)
      throw Gone("[processes] process " + std::to_string(first_here() + local) +
                 " of the run is at something else than process " + std::to_string(rank_) +
                 "; a fault of this program, please report it");
}

template <class Work>
void ProcessGroup::over_the_line(const Work& work) {
  if (!line_) return;
  try {
    work();
  } catch (const MachineLine::Gone& e) {
    // why, where another has said so
    look_after_others();
    fail(e.what());
    throw Gone(e.what());
  }
}

void ProcessGroup::bring_places(Call call, size_t bytes) {
  if (here() == size()) return;
  over_the_line([&] {
    std::vector<std::vector<MachineLine::Bytes>> blocks(size_t(line_->run().machines));
    for (int rank = 0; rank < size(); ++rank)
      blocks[size_t(rank / here())].push_back({place_of(rank), bytes});
    line_->exchange(number_of(call, bytes), blocks);
  });
  meet();
}

template <class T>
void ProcessGroup::add_over_machines(const std::vector<const T*>& own, size_t count, T* total) {
  over_the_line([&] {
    // what other machines have added is in full, and is rounded once
    partial_.resize(std::max(partial_.size(), count * sizeof(Wide<T>)));
    auto* partial = reinterpret_cast<Wide<T>*>(partial_.data());
    const bool last = line_->machine() == line_->run().machines - 1;
    const auto add = [&](size_t begin, size_t n) {
      std::vector<const T*> of = own;
      for (const T*& part : of) part += begin;
      const Wide<T>* before = line_->machine() == 0 ? nullptr : partial + begin;
      if (last) add_in_order(before, of, n, total + begin);
      else add_in_order(before, of, n, partial + begin);
    };
    line_->add_up(number_of(Call::sum, count * sizeof(T)),
                  {.count = count,
                   .wide = sizeof(Wide<T>),
                   .narrow = sizeof(T),
                   .partial = partial_.data(),
                   .total = reinterpret_cast<std::byte*>(total),
                   .add = add});
  });
}

void ProcessGroup::look_after_others() {
  const std::lock_guard lock(mutex_);
  // one that fails by itself says why; one that is killed does not
  for (int local = 0; local < here() && gone_.empty(); ++local)
    if (local != local_ && shared_->members[local].failed.load())
      gone_ = shared_->members[local].failure;
  for (size_t local = 0; local < children_.size() && gone_.empty(); ++local) {
    int status = 0;
    if (children_[local] <= 0 || waitpid(children_[local], &status, WNOHANG) <= 0) continue;
    children_[local] = 0;
    // at the run's end one has made the last call and leaves before this one has seen that
    const auto& member = shared_->members[local];
    if (status == 0 && int32_t(member.arrived.load() - arrivals_) >= 0) continue;
    gone_ = member.failed.load() ? member.failure
                                 : ending_of(first_here() + int(local), where(), status);
  }
  if (gone_.empty() && local_ > 0 && getppid() != shared_->head)
    gone_ = "[processes] the first process of the run has ended";
  if (gone_.empty() && line_) gone_ = line_->lost();
  if (gone_.empty()) return;
  // those of this machine and of others hear of it from its head
  if (local_ == 0) fail(gone_);
  // also who asks again hears of it
  throw Gone(gone_);
}

template <class T>
void ProcessGroup::add_up(T* values, size_t count) {
  const size_t place = shared_->place;
  std::vector<const T*> all;
  for (size_t begin = 0; begin < count; begin += place / sizeof(T), ++calls_) {
    const size_t n = std::min(place / sizeof(T), count - begin);
    const auto shown_by = [&](int rank) { return reinterpret_cast<const T*>(place_of(rank)); };
    const bool small = n * sizeof(T) <= kSmall;
    // alone on its machine it shows nobody what goes over the line
    if (here() == 1 && !small) {
      add_over_machines<T>({values + begin}, n, values + begin);
      continue;
    }
    all.clear();
    for (int rank = 0; rank < size(); ++rank) all.push_back(shown_by(rank));
    std::memcpy(place_of(rank_), values + begin, n * sizeof(T));
    meet_for(Call::sum, n * sizeof(T));
    if (small) {
      bring_places(Call::sum, n * sizeof(T));
      add_in_order<T>(nullptr, all, n, values + begin);
      continue;
    }
    if (here() != size()) {
      const auto own = all.begin() + first_here();
      auto* total = reinterpret_cast<T*>(place_of(first_here()));
      add_over_machines<T>({own, own + here()}, n, total);
      meet();
      std::memcpy(values + begin, total, n * sizeof(T));
      continue;
    }
    // each process adds a share, which none but it reads before, and shows the sum in its own place
    const size_t share = (n + size_t(size()) - 1) / size_t(size());
    const auto begin_of = [&](int rank) { return std::min(n, size_t(rank) * share); };
    const size_t first = begin_of(rank_), own = begin_of(rank_ + 1) - first;
    for (const T*& part : all) part += first;
    add_in_order<T>(nullptr, all, own, reinterpret_cast<T*>(place_of(rank_)) + first);
    meet();
    for (int rank = 0; rank < size(); ++rank) {
      const size_t from = begin_of(rank), many = begin_of(rank + 1) - from;
      std::memcpy(values + begin + from, shown_by(rank) + from, many * sizeof(T));
    }
  }
}

void ProcessGroup::sum(float* values, size_t count) { add_up(values, count); }
void ProcessGroup::sum(double* values, size_t count) { add_up(values, count); }
void ProcessGroup::sum(uint16_t* values, size_t count) { add_up(values, count); }

void ProcessGroup::gather(const void* own, size_t bytes, void* all) {
  const auto* from = static_cast<const std::byte*>(own);
  auto* to = static_cast<std::byte*>(all);
  const size_t place = shared_->place;
  for (size_t begin = 0; begin < bytes; begin += place, ++calls_) {
    const size_t n = std::min(place, bytes - begin);
    std::memcpy(place_of(rank_), from + begin, n);
    meet_for(Call::gather, n);
    bring_places(Call::gather, n);
    for (int rank = 0; rank < size(); ++rank)
      std::memcpy(to + size_t(rank) * bytes + begin, place_of(rank), n);
  }
}

void ProcessGroup::put_word(const std::string& text) {
  MAGLEV_ASSERT(text.size() + sizeof(size_t) <= shared_->place, "the leader's word fits its place");
  const size_t bytes = text.size();
  std::memcpy(place_of(first_here()), &bytes, sizeof bytes);
  std::memcpy(place_of(first_here()) + sizeof bytes, text.data(), bytes);
}

void ProcessGroup::tell(const std::string& text) {
  put_word(text);
  over_the_line([&] { line_->tell(number_of(Call::word, 0), text); });
  meet_for(Call::word, 0);
  ++calls_;
}

std::string ProcessGroup::hear() {
  over_the_line([&] { put_word(line_->hear(number_of(Call::word, 0))); });
  meet_for(Call::word, 0);
  size_t bytes = 0;
  std::memcpy(&bytes, place_of(first_here()), sizeof bytes);
  std::string text(reinterpret_cast<const char*>(place_of(first_here())) + sizeof bytes, bytes);
  ++calls_;
  return text;
}

void ProcessGroup::fail(const std::string& what) noexcept {
  const std::lock_guard lock(failing_);
  auto& own = shared_->members[local_];
  // what was said first is why
  if (!own.failed.load()) {
    const size_t bytes = std::min(what.size(), sizeof own.failure - 1);
    std::memcpy(own.failure, what.data(), bytes);
    own.failure[bytes] = 0;
    own.failed.store(true);
  }
  if (line_) line_->fail(what);
}

std::string ProcessGroup::lost() const {
  const std::lock_guard lock(mutex_);
  if (!gone_.empty()) return gone_;
  for (size_t local = 1; local < children_.size(); ++local) {
    if (shared_->members[local].failed.load()) return shared_->members[local].failure;
    siginfo_t info{};
    // looked at only: the loop's thread takes what became of it
    const pid_t child = children_[local];
    if (child <= 0 || waitid(P_PID, id_t(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0) continue;
    // as waitpid would say it
    const int status = info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status;
    if (info.si_pid == child && status != 0)
      return ending_of(first_here() + int(local), where(), status);
  }
  return line_ ? line_->lost() : "";
}

void ProcessGroup::wait_for_end() {
  const double begin = steady_s();
  for (size_t local = 1; local < children_.size(); ++local) {
    const int rank = first_here() + int(local);
    int status = 0;
    while (children_[local] > 0) {
      {
        const std::lock_guard lock(mutex_);
        if (waitpid(children_[local], &status, WNOHANG) != 0) children_[local] = 0;
      }
      if (children_[local] == 0) break;
      if (steady_s() - begin > kEnding)
        throw Error("[processes] process " + std::to_string(rank) + " of the run did not end");
      usleep(1000);
    }
    if (status != 0) throw Error(ending_of(rank, where(), status));
  }
  if (line_) line_->end(kEnding);
}

}  // namespace maglev
