#include "engine/host/usage.h"

#include <charconv>
#include <limits>

#include "base/core/clock.h"
#include "base/trace/thread_use.h"
#include "engine/host/proc.h"

namespace maglev {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// the number behind `name` and spaces; `otherwise` where there is none
template <class Number>
Number number_behind(std::string_view text, std::string_view name, Number otherwise) {
  const size_t found = text.find(name);
  if (found == std::string_view::npos) return otherwise;
  text.remove_prefix(found + name.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? value : otherwise;
}

std::vector<Usage::Energy> read_energy(const std::string& root) {
  std::vector<Usage::Energy> counters;
  // domains are numbered through: packages, and on some machines the whole platform, which counts
  // them again; what lies within a package is counted by it
  for (int package = 0;; ++package) {
    const std::string folder = root + "/sys/class/powercap/intel-rapl:" + std::to_string(package);
    const int64_t count = number_behind<int64_t>(proc_text(folder + "/energy_uj"), "", -1),
                  range =
                      number_behind<int64_t>(proc_text(folder + "/max_energy_range_uj"), "", -1);
    if (count < 0 || range <= 0) return counters;
    if (!proc_text(folder + "/name").starts_with("package")) continue;
    counters.push_back({count, range});
  }
}

double queued_s(const std::string& process) {
  constexpr double kNanosecond_s = 1e-9;
  const std::vector<trace::ThreadUse> threads = trace::use_of_threads(process);
  return threads.empty() ? kUnknown : kNanosecond_s * double(trace::sum_of(threads).queued);
}

}  // namespace

Usage sample_usage(const std::string& root) {
  return {.at_s = steady_s(),
          .processor_s = processor_time_s(RUSAGE_SELF),
          .queued_s = queued_s(root + "/proc/self"),
          .programs = use_of_other_programs(),
          .resident = parse_resident(proc_text(root + "/proc/self/status")),
          .memory_pressure = parse_pressure(proc_text(root + "/proc/pressure/memory")),
          .processor_pressure = parse_pressure(proc_text(root + "/proc/pressure/cpu")),
          .energy = read_energy(root)};
}

double joules_between(const Usage& before, const Usage& after) {
  if (before.energy.empty() || before.energy.size() != after.energy.size()) return kUnknown;
  double microjoules = 0;
  for (size_t i = 0; i < before.energy.size(); ++i) {
    const int64_t more = after.energy[i].count - before.energy[i].count;
    microjoules += double(more < 0 ? more + before.energy[i].range : more);
  }
  return 1e-6 * microjoules;
}

int64_t parse_resident(std::string_view text) {
  constexpr int64_t kKiB = 1024;
  const int64_t own = number_behind<int64_t>(text, "RssAnon:", -1);
  return kKiB * (own >= 0 ? own : number_behind<int64_t>(text, "VmRSS:", 0));
}

double parse_pressure(std::string_view text) {
  return number_behind<double>(text, "some avg10=", 100 * kUnknown) / 100;
}

}  // namespace maglev
