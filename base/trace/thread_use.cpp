#include "base/trace/thread_use.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <dirent.h>
#include <fstream>
#include <iterator>
#include <memory>

namespace maglev::trace {
namespace {

// what grows from a thread's begin on
constexpr int64_t ThreadUse::*kCounted[] = {&ThreadUse::on_processor, &ThreadUse::queued,
                                            &ThreadUse::in_kernel,    &ThreadUse::faults,
                                            &ThreadUse::gave_up,      &ThreadUse::taken_away};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// the number behind `key` in lines of "key:  number"
int64_t number_behind(const std::string& text, const std::string& key) {
  const size_t place = text.find("\n" + key + ":");
  return place == text.npos ? 0 : std::strtoll(text.c_str() + place + key.size() + 2, nullptr, 10);
}

// the rest of a stat's fields behind the name, which may hold anything: field 3 is the first
std::vector<int64_t> fields_of(const std::string& stat) {
  std::vector<int64_t> fields;
  const size_t name = stat.rfind(')');
  if (name == stat.npos || name + 4 > stat.size()) return fields;
  // the state is a letter
  const char* place = stat.c_str() + name + 4;
  for (char* end = nullptr;; place = end) {
    const int64_t value = std::strtoll(place, &end, 10);
    if (end == place) return fields;
    fields.push_back(value);
  }
}

ThreadUse read_use(const std::string& folder, int64_t tid) {
  ThreadUse use{.tid = tid};
  const std::string schedule = text_of(folder + "/schedstat");
  char* behind = nullptr;
  use.on_processor = std::strtoll(schedule.c_str(), &behind, 10);
  use.queued = std::strtoll(behind, nullptr, 10);
  // faults are field 10, time in user code and in the kernel 14 and 15, in ticks: their proportion
  // holds for the exact time above
  const std::vector<int64_t> fields = fields_of(text_of(folder + "/stat"));
  if (fields.size() > 11) {
    use.faults = fields[6];
    const auto user = double(fields[10]), kernel = double(fields[11]);
    if (user + kernel > 0)
      use.in_kernel = int64_t(double(use.on_processor) * kernel / (user + kernel));
  }
  const std::string status = text_of(folder + "/status");
  use.gave_up = number_behind(status, "voluntary_ctxt_switches");
  use.taken_away = number_behind(status, "nonvoluntary_ctxt_switches");
  return use;
}

}  // namespace

std::vector<ThreadUse> use_of_threads(const std::string& process) {
  std::vector<ThreadUse> uses;
  const std::string folder = process + "/task";
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(opendir(folder.c_str()), closedir);
  if (!tasks) return uses;
  while (const dirent* entry = readdir(tasks.get())) {
    const std::string name = entry->d_name;
    int64_t tid = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), tid);
    if (read.ec == std::errc() && read.ptr == name.data() + name.size())
      uses.push_back(read_use(folder + "/" + name, tid));
  }
  std::sort(uses.begin(), uses.end(),
            [](const ThreadUse& a, const ThreadUse& b) { return a.tid < b.tid; });
  return uses;
}

ThreadUse sum_of(const std::vector<ThreadUse>& threads) {
  ThreadUse sum;
  for (const ThreadUse& thread : threads)
    for (const auto what : kCounted) sum.*what += thread.*what;
  return sum;
}

std::vector<ThreadUse> use_between(const std::vector<ThreadUse>& begin,
                                   const std::vector<ThreadUse>& end) {
  std::vector<ThreadUse> between;
  for (ThreadUse use : end) {
    const auto before =
        std::lower_bound(begin.begin(), begin.end(), use.tid,
                         [](const ThreadUse& one, int64_t tid) { return one.tid < tid; });
    if (before != begin.end() && before->tid == use.tid)
      for (const auto what : kCounted)
        use.*what = std::max<int64_t>(0, use.*what - (*before).*what);
    between.push_back(use);
  }
  return between;
}

}  // namespace maglev::trace
