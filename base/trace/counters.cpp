#include "base/trace/counters.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#include <memory>
#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/resource.h>
#include <sys/syscall.h>

namespace maglev::trace {
namespace {

struct Event {
  uint32_t type;
  uint64_t config;
};
// in the order of kCounters
constexpr std::array<Event, kCounters.size()> kEvents = {{
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
    {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK},
    {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
    {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES},
}};

int open_event(const Event& event, int leader) {
  perf_event_attr wanted{};
  wanted.size = sizeof wanted;
  wanted.type = event.type;
  wanted.config = event.config;
  wanted.read_format = PERF_FORMAT_GROUP;
  // on the processor all of the time or not at all: a share of it would be a guess
  wanted.pinned = leader < 0;
  // what may be counted without rights; a switch happens in the kernel alone
  wanted.exclude_kernel =
      event.type == PERF_TYPE_HARDWARE || event.config != PERF_COUNT_SW_CONTEXT_SWITCHES;
  wanted.exclude_hv = 1;
  return int(
      syscall(SYS_perf_event_open, &wanted, /*pid=*/0, /*cpu=*/-1, leader, PERF_FLAG_FD_CLOEXEC));
}

// a thread's group of events; the first one open leads it
class PerfGroup {
 public:
  explicit PerfGroup(size_t first) {
    fds_.fill(-1);
    for (size_t i = first; i < kEvents.size(); ++i) {
      const int fd = open_event(kEvents[i], leader_);
      if (fd < 0) {
        if (error_ == 0) error_ = errno;
        continue;
      }
      if (leader_ < 0) leader_ = fd;
      fds_[i] = fd;
    }
  }
  ~PerfGroup() {
    for (const int fd : fds_)
      if (fd >= 0) close(fd);
  }
  PerfGroup(const PerfGroup&) = delete;
  PerfGroup& operator=(const PerfGroup&) = delete;

  bool open() const { return leader_ >= 0; }
  int highest() const { return *std::max_element(fds_.begin(), fds_.end()); }
  bool has(size_t counter) const { return fds_[counter] >= 0; }
  /// Of the first event that was refused; 0: none was.
  int error() const { return error_; }

  // { number of values, the values in the order they were opened }
  bool read(Counts& counts) const {
    std::array<uint64_t, 1 + kEvents.size()> values{};
    const ssize_t got = ::read(leader_, values.data(), sizeof values);
    if (got < ssize_t(sizeof values[0]) || values[0] >= values.size()) return false;
    size_t next = 1;
    for (size_t i = 0; i < fds_.size(); ++i) {
      counts[i] = -1;
      if (fds_[i] < 0) continue;
      if (next > values[0]) return false;
      counts[i] = int64_t(values[next++]);
    }
    return true;
  }

 private:
  std::array<int, kEvents.size()> fds_{};
  int leader_ = -1, error_ = 0;
};

// that this process may have open
int most_files() {
  rlimit limit{};
  const bool known = getrlimit(RLIMIT_NOFILE, &limit) == 0;
  return known && limit.rlim_cur < INT_MAX ? int(limit.rlim_cur) : INT_MAX;
}

// opens the events from `first` on
std::function<ReadCounts()> opener(size_t first) {
  return [first]() -> ReadCounts {
    auto group = std::make_shared<PerfGroup>(first);
    // files that a run writes need numbers, too
    if (!group->open() || group->highest() > most_files() / 2) return {};
    return [group](Counts& counts) { return group->read(counts); };
  };
}

}  // namespace

std::string counters_refused(int error, std::string_view paranoid) {
  const std::string level(paranoid.substr(0, paranoid.find('\n')));
  switch (error) {
    case EACCES:
    case EPERM:
      return "kernel.perf_event_paranoid = " + (level.empty() ? "unknown" : level) +
             " or a container's rules forbid them: sysctl kernel.perf_event_paranoid=2, or the "
             "capability CAP_PERFMON";
    case ENOENT:
    case EOPNOTSUPP:
    case ENODEV:
      return "this machine shows no counters of its processor, as most virtual ones do; run on the "
             "metal, or give the guest a virtual PMU";
    case ENOSYS:
      return "this kernel has no perf_event_open";
    default:
      return std::string("perf_event_open: ") + std::strerror(error);
  }
}

CounterSource perf_counters(const std::string& paranoid) {
  // what this thread gets, others get. A group that was opened and has no room on the processor
  // reads nothing
  const PerfGroup all(0), software(kHardwareCounters);
  Counts counts;
  const bool hardware = all.has(0) && all.read(counts);
  const PerfGroup& group = hardware ? all : software;
  std::string missing;
  for (size_t i = 0; i < kCounters.size(); ++i)
    if (!group.has(i)) missing += (missing.empty() ? "" : ", ") + std::string(kCounters[i]);

  CounterSource source;
  if (group.open()) source.open = opener(hardware ? 0 : kHardwareCounters);
  if (missing.empty()) return source;
  std::string level;
  std::ifstream file(paranoid);
  std::getline(file, level);
  source.lacks =
      "not counted: " + missing + "; " + counters_refused(all.error() ? all.error() : EBUSY, level);
  return source;
}

Counts counted_between(const Counts& begin, const Counts& end) {
  Counts counts;
  for (size_t i = 0; i < counts.size(); ++i)
    counts[i] = begin[i] < 0 || end[i] < 0 ? -1 : end[i] - begin[i];
  return counts;
}

}  // namespace maglev::trace
