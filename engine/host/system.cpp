#include "engine/host/system.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <set>
#include <unistd.h>
#include <utility>

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include "base/core/printed.h"
#include "base/core/words.h"
#include "engine/host/proc.h"

namespace maglev {
namespace {

constexpr int64_t kMiB = int64_t(1) << 20, kGiB = int64_t(1) << 30;
// version 1 shows "no limit" as the largest multiple of the page size
constexpr int64_t kNoLimit = int64_t(1) << 60;

std::string_view trimmed(std::string_view text) {
  const auto space = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return text;
}

// calls each(line) for the lines of text
template <class Each>
void for_lines(std::string_view text, Each each) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    each(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// "name : value"; both trimmed
std::pair<std::string_view, std::string_view> split(std::string_view line, char at) {
  const size_t place = line.find(at);
  if (place == std::string_view::npos) return {trimmed(line), {}};
  return {trimmed(line.substr(0, place)), trimmed(line.substr(place + 1))};
}

std::optional<int64_t> whole(std::string_view text) {
  text = trimmed(text);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

void name_vector_units(std::string_view flags, std::vector<std::string>& names) {
  static constexpr std::pair<const char*, const char*> kUnits[] = {{"sse4_2", "sse4.2"},
                                                                   {"avx", "avx"},
                                                                   {"avx2", "avx2"},
                                                                   {"fma", "fma"},
                                                                   {"avx_vnni", "avx-vnni"},
                                                                   {"avx512f", "avx512"},
                                                                   {"avx512_vnni", "avx512-vnni"},
                                                                   {"avx512_bf16", "avx512-bf16"},
                                                                   {"avx512_fp16", "avx512-fp16"},
                                                                   {"amx_bf16", "amx-bf16"},
                                                                   {"amx_int8", "amx-int8"},
                                                                   {"asimd", "neon"},
                                                                   {"sve", "sve"},
                                                                   {"sve2", "sve2"},
                                                                   {"asimdhp", "fp16"},
                                                                   {"bf16", "bf16"}};
  // whole words: avx is not in avx2
  std::set<std::string_view> have;
  while (!flags.empty()) {
    const size_t end = std::min(flags.find(' '), flags.size());
    have.insert(flags.substr(0, end));
    flags.remove_prefix(std::min(end + 1, flags.size()));
  }
  for (const auto& [flag, name] : kUnits)
    if (have.contains(flag)) names.emplace_back(name);
}

// what ARM calls a core; Linux shows numbers (the register MIDR_EL1), and no name of the processor
std::string arm_core(const std::string& implementer, const std::string& part) {
  static constexpr std::pair<const char*, const char*> kParts[] = {
      {"0xd03", "Cortex-A53"},  {"0xd08", "Cortex-A72"},  {"0xd0b", "Cortex-A76"},
      {"0xd0c", "Neoverse-N1"}, {"0xd40", "Neoverse-V1"}, {"0xd42", "Cortex-A78AE"},
      {"0xd49", "Neoverse-N2"}, {"0xd4f", "Neoverse-V2"}, {"0xd84", "Neoverse-V3"},
      {"0xd85", "Cortex-X925"}, {"0xd87", "Cortex-A725"}, {"0xd8e", "Neoverse-N3"}};
  if (implementer == "0x41")
    for (const auto& [number, name] : kParts)
      if (part == number) return std::string("ARM ") + name;
  return "ARM core " + part + " of maker " + implementer;
}

// the folders from a process's group up to the mount: a limit may stand at any of them. Inside a
// container the group's path may not exist below the mount, which then is the group itself.
std::vector<std::string> group_folders(const std::string& mount, const std::string& group) {
  std::vector<std::string> folders;
  std::filesystem::path path = group;
  for (; path.has_relative_path(); path = path.parent_path())
    folders.push_back(mount + path.string());
  folders.push_back(mount);
  return folders;
}

void probe_limits(const std::string& root, Processor& processor, Memory& memory) {
  const std::string groups = proc_text(root + "/proc/self/cgroup"), mount = root + "/sys/fs/cgroup";
  // of all limits on the way up the tightest counts
  const auto tighter_quota = [&](double quota) {
    if (quota > 0 && (processor.quota == 0 || quota < processor.quota)) processor.quota = quota;
  };
  const auto tighter_memory = [&](int64_t limit, const std::string& used) {
    if (limit <= 0 || (memory.limit != 0 && limit >= memory.limit)) return;
    memory.limit = limit;
    memory.limit_used = parse_limit(proc_text(used));
  };
  // version 2 has one hierarchy for all, version 1 one for each controller
  for (const std::string& folder : group_folders(mount, parse_cgroup(groups, ""))) {
    tighter_quota(parse_cpu_max(proc_text(folder + "/cpu.max")));
    tighter_memory(parse_limit(proc_text(folder + "/memory.max")), folder + "/memory.current");
  }
  for (const std::string& folder : group_folders(mount + "/cpu", parse_cgroup(groups, "cpu"))) {
    const auto quota = whole(proc_text(folder + "/cpu.cfs_quota_us")),
               period = whole(proc_text(folder + "/cpu.cfs_period_us"));
    // a quota of -1 is none
    if (quota && period && *quota > 0 && *period > 0)
      tighter_quota(double(*quota) / double(*period));
  }
  for (const std::string& folder : group_folders(mount + "/memory", parse_cgroup(groups, "memory")))
    tighter_memory(parse_limit(proc_text(folder + "/memory.limit_in_bytes")),
                   folder + "/memory.usage_in_bytes");
  // a limit above what the machine has limits nothing
  if (memory.total > 0 && memory.limit >= memory.total) memory.limit = memory.limit_used = 0;
}

std::string os_name(const std::string& text) {
  std::string name;
  for_lines(text, [&](std::string_view line) {
    const auto [key, value] = split(line, '=');
    if (key == "PRETTY_NAME")
      name = value.size() >= 2 && value.front() == '"' ? value.substr(1, value.size() - 2) : value;
  });
  return name.empty() ? "unknown" : name;
}

std::optional<bool> turbo_state(const std::string& root) {
  const std::string cpu = root + "/sys/devices/system/cpu/";
  // Intel's driver tells whether it is off, others whether it is on
  if (const auto off = whole(proc_text(cpu + "intel_pstate/no_turbo"))) return *off == 0;
  if (const auto boost = whole(proc_text(cpu + "cpufreq/boost"))) return *boost == 1;
  return std::nullopt;
}

// the driver's own list, where its library is missing: names only
std::vector<Gpu> gpus_of_driver(const std::string& root) {
  std::vector<Gpu> gpus;
  std::error_code error;
  std::filesystem::directory_iterator folder(root + "/proc/driver/nvidia/gpus", error);
  for (; !error && folder != std::filesystem::directory_iterator(); folder.increment(error))
    for_lines(proc_text(folder->path().string() + "/information"), [&](std::string_view line) {
      const auto [key, value] = split(line, ':');
      if (key == "Model") gpus.push_back({.name = std::string(value)});
    });
  return gpus;
}

// the folders index0, index1, ... of the first processor, nearest cache first
std::vector<Cache> caches_of(const std::string& root) {
  std::vector<Cache> caches;
  for (int i = 0;; ++i) {
    const std::string folder =
        root + "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i) + "/";
    const auto level = whole(proc_text(folder + "level"));
    if (!level) return caches;
    Cache cache{.level = int(*level), .kind = lower_case(trimmed(proc_text(folder + "type")))};
    cache.bytes = parse_size(proc_text(folder + "size"));
    cache.shared_by = parse_list_count(proc_text(folder + "shared_cpu_list"));
    caches.push_back(std::move(cache));
  }
}

std::string number_text(double value) {
  return printed(value == std::round(value) ? "%.0f" : "%.1f", value);
}

}  // namespace

int64_t Memory::left() const {
  return limit > 0 ? std::min(available, std::max<int64_t>(0, limit - limit_used)) : available;
}

int64_t Memory::most() const { return limit > 0 ? std::min(limit, total) : total; }

System probe_system(const std::string& path, const std::string& root,
                    const GpuLibraries& libraries) {
  System system;
  // what runs on it
  system.os = os_name(proc_text(root + "/etc/os-release"));
  utsname names{};
  if (uname(&names) == 0)
    system.kernel = std::string(names.sysname) + " " + names.release + " " + names.machine;
  // the processor, and how much of it this process may have
  Processor& processor = system.processor;
  parse_cpuinfo(proc_text(root + "/proc/cpuinfo"), processor);
  cpu_set_t set;
  processor.affinity =
      sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : processor.present;
  const std::string frequency = root + "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
  processor.governor = trimmed(proc_text(frequency));
  processor.turbo = turbo_state(root);
  processor.caches = caches_of(root);
  processor.memory_nodes = parse_list_count(proc_text(root + "/sys/devices/system/node/online"));
  processor.load = std::atof(proc_text(root + "/proc/loadavg").c_str());
  // memory, and the limits of control groups
  parse_meminfo(proc_text(root + "/proc/meminfo"), system.memory);
  probe_limits(root, processor, system.memory);
  system.memory.address_space = address_space_left().value_or(0);
  system.memory.huge_pages =
      parse_choice(proc_text(root + "/sys/kernel/mm/transparent_hugepage/enabled"));
  // the disk
  system.disk.path = path;
  struct statvfs disk {};
  if (statvfs(path.c_str(), &disk) == 0) {
    system.disk.total = int64_t(disk.f_blocks) * int64_t(disk.f_frsize);
    system.disk.available = int64_t(disk.f_bavail) * int64_t(disk.f_frsize);
  }
  // GPUs by the drivers' libraries; by the driver's files else
  system.gpus = probe_gpus(libraries);
  if (system.gpus.empty()) system.gpus = gpus_of_driver(root);
  return system;
}

double parse_cpu_max(std::string_view text) {
  const auto [quota, period] = split(trimmed(text), ' ');
  const auto granted = whole(quota), every = whole(period);
  return granted && every && *granted > 0 && *every > 0 ? double(*granted) / double(*every) : 0;
}

void parse_meminfo(std::string_view text, Memory& memory) {
  int64_t spare = 0;
  bool told = false;
  for_lines(text, [&](std::string_view line) {
    const auto [key, value] = split(line, ':');
    // the kernel counts in KiB
    const int64_t bytes = whole(value).value_or(0) * 1024;
    if (key == "MemTotal") memory.total = bytes;
    if (key == "MemAvailable") memory.available = bytes, told = true;
    if (key == "MemFree" || key == "Buffers" || key == "Cached") spare += bytes;
  });
  if (!told) memory.available = spare;
}

int64_t parse_limit(std::string_view text) {
  const int64_t limit = whole(text).value_or(0);
  return limit < 0 || limit >= kNoLimit ? 0 : limit;
}

void parse_cpuinfo(std::string_view text, Processor& processor) {
  // a core shows once for each of its threads
  std::set<std::pair<std::string, std::string>> cores;
  std::string package, model, implementer;
  // of ARM, each kind once: a processor may have two
  std::vector<std::string> kinds;
  for_lines(text, [&](std::string_view line) {
    const auto [key, value] = split(line, ':');
    if (key == "processor") ++processor.present;
    if (key == "model name" && model.empty()) model = value;
    if (key == "physical id") package = value;
    if (key == "core id") cores.emplace(package, value);
    if (key == "CPU implementer") implementer = value;
    if (key == "CPU part")
      if (std::string kind = arm_core(implementer, std::string(value));
          std::ranges::find(kinds, kind) == kinds.end())
        kinds.push_back(std::move(kind));
    if ((key == "flags" || key == "Features") && processor.vector_units.empty())
      name_vector_units(value, processor.vector_units);
  });
  if (model.empty())
    for (const std::string& kind : kinds) model += (model.empty() ? "" : " and ") + kind;
  if (!model.empty()) processor.model = model;
  processor.cores = int(cores.size());
}

std::string parse_cgroup(std::string_view text, std::string_view controller) {
  std::string group;
  for_lines(text, [&](std::string_view line) {
    // number:controllers:path; version 2 has number 0 and no controllers
    const auto [number, rest] = split(line, ':');
    const auto [controllers, path] = split(rest, ':');
    if (controller.empty()) {
      if (number == "0" && controllers.empty()) group = path;
      return;
    }
    for (std::string_view left = controllers; !left.empty();) {
      const size_t end = std::min(left.find(','), left.size());
      if (left.substr(0, end) == controller) group = path;
      left.remove_prefix(std::min(end + 1, left.size()));
    }
  });
  return group;
}

int parse_list_count(std::string_view text) {
  int count = 0;
  for (std::string_view left = trimmed(text); !left.empty();) {
    const size_t end = std::min(left.find(','), left.size());
    const auto [low, high] = split(left.substr(0, end), '-');
    const auto first = whole(low), last = high.empty() ? first : whole(high);
    if (!first || !last || *last < *first) return 0;
    count += int(*last - *first + 1);
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return count;
}

std::optional<int64_t> address_space_left() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0;
  statm >> pages;
  return std::max<int64_t>(1, int64_t(limit.rlim_cur) - pages * ::sysconf(_SC_PAGESIZE));
}

int64_t parse_size(std::string_view text) {
  text = trimmed(text);
  const int64_t count = whole(text).value_or(0);
  const char unit = text.empty() ? ' ' : text.back();
  return count * (unit == 'K' ? 1024 : unit == 'M' ? kMiB : unit == 'G' ? kGiB : 1);
}

std::string parse_choice(std::string_view text) {
  const size_t begin = text.find('['), end = text.find(']');
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return "";
  return std::string(text.substr(begin + 1, end - begin - 1));
}

std::vector<std::string> system_warnings(const System& system, int threads) {
  std::vector<std::string> warnings;
  const Processor& cpu = system.processor;
  if (cpu.quota > 0 && cpu.quota < cpu.affinity)
    warnings.push_back("the cgroup grants " + number_text(cpu.quota) + " of " +
                       std::to_string(cpu.affinity) +
                       " processors' time: more threads than that are paused by the kernel");
  // processors that may run at once
  const double room = cpu.quota > 0 ? std::min<double>(cpu.quota, cpu.affinity) : cpu.affinity;
  if (room > 0 && threads > std::ceil(room))
    warnings.push_back(
        std::to_string(threads) + " threads on " + number_text(room) +
        " usable processors wait for each other: set threads=0 to use what there is");
  if (cpu.present > 0 && cpu.load > 0.5 * cpu.present)
    warnings.push_back(
        "the load is " + number_text(std::round(cpu.load * 10) / 10) + " on " +
        std::to_string(cpu.present) +
        " processors: other programs are running, and figures measured now are too low");
  if (cpu.governor == "powersave" && !cpu.turbo.value_or(false))
    warnings.push_back(
        "the frequency governor is powersave: `cpupower frequency-set -g performance` is faster");
  if (cpu.turbo && !*cpu.turbo)
    warnings.push_back("turbo is off: the processor stays at its base clock");
  if (system.memory.huge_pages == "never")
    warnings.push_back(
        "transparent huge pages are off: `echo always > "
        "/sys/kernel/mm/transparent_hugepage/enabled` (as root) lets large tensors have them; with "
        "madvise a replay's observations and TD-MPC2's panels do, which ask");
  if (cpu.memory_nodes > 1)
    warnings.push_back("memory is in " + std::to_string(cpu.memory_nodes) +
                       " nodes: `numactl --cpunodebind=0 --membind=0` keeps a run's threads near "
                       "its memory, where one node's processors suffice");
  for (const Gpu& gpu : system.gpus) {
    if (gpu.busy >= 50)
      warnings.push_back(gpu.name + " was busy " + std::to_string(gpu.busy) +
                         "% of the time: another program uses it; choose another with "
                         "device=cuda:<index>, or wait for it");
    if (gpu.lanes > 0 && gpu.lanes < gpu.lanes_at_most)
      warnings.push_back(gpu.name + " has " + std::to_string(gpu.lanes) + " of " +
                         std::to_string(gpu.lanes_at_most) +
                         " PCI Express lanes: copies take longer; if it stays so under load, move "
                         "the card to another slot");
  }
  if (const int64_t space = system.memory.address_space; space > 0 && space < system.memory.left())
    warnings.push_back("only " + bytes_text(space) +
                       " of memory may be taken by this process: `ulimit -v unlimited` lifts it");
  if (system.memory.total > 0 && system.memory.left() < 2 * kGiB)
    warnings.push_back("only " + bytes_text(system.memory.left()) +
                       " of memory is left: use fewer environments (env.count)");
  if (system.disk.total > 0 && system.disk.available < 2 * kGiB)
    warnings.push_back("only " + bytes_text(system.disk.available) + " of disk is left at " +
                       system.disk.path + ": checkpoints may fail; give another folder with --out");
  return warnings;
}

std::string bytes_text(int64_t bytes) {
  if (bytes >= kGiB) return printed("%.1f GiB", double(bytes) / double(kGiB));
  if (bytes >= kMiB) return printed("%.0f MiB", double(bytes) / double(kMiB));
  return printed("%.0f KiB", double(bytes) / 1024);
}

}  // namespace maglev
