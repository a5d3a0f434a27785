#pragma once
// What this machine is: processor, memory, disk, GPUs, and the limits this process runs under.
// Reads files of the kernel; what they say is parsed by pure functions. No torch.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/host/gpus.h"

namespace maglev {

/// A cache of the first processor.
struct Cache {
  int level = 0;
  std::string kind;  ///< "data", "instruction" or "unified"
  int64_t bytes = 0;
  int shared_by = 0;  ///< logical processors; 0: unknown
};

struct Processor {
  std::string model = "unknown";
  int present = 0;   ///< logical processors the machine has online
  int cores = 0;     ///< physical ones among them; 0: unknown
  int affinity = 0;  ///< logical processors this process may be scheduled on
  double quota = 0;  ///< processors' worth of time the cgroup grants; 0: no limit
  std::vector<std::string> vector_units;  ///< e.g. "avx2", "avx512", "avx512-bf16", "amx-bf16"
  std::string governor;  ///< of frequency scaling, e.g. "powersave"; empty: unknown
  /// Whether the processor may exceed its base clock; unknown in most virtual machines.
  std::optional<bool> turbo;
  double load = 0;            ///< runnable tasks, mean of the last minute
  std::vector<Cache> caches;  ///< nearest first; empty: unknown
  int memory_nodes = 0;       ///< of NUMA; 0: unknown
};

/// Bytes.
struct Memory {
  int64_t total = 0, available = 0;
  /// The tightest cgroup limit and what counts against it; 0: no limit.
  int64_t limit = 0, limit_used = 0;
  /// Who gets transparent huge pages: "always", "madvise" (who asks) or "never"; empty: unknown.
  std::string huge_pages;
  /// What `ulimit -v` leaves this process, whatever the machine has; 0: no limit.
  int64_t address_space = 0;
  /// What processes of this machine and group can still take, and all that they could ever have; 0:
  /// unknown.
  int64_t left() const;
  int64_t most() const;
};

struct Disk {
  std::string path;
  int64_t total = 0, available = 0;  ///< bytes; 0: unknown
};

struct System {
  std::string os, kernel;
  Processor processor;
  Memory memory;
  Disk disk;
  std::vector<Gpu> gpus;  ///< that the driver knows, whether or not torch can use them
};

/// The machine this runs on; `path` is where the disk is asked about. `root` is put before /proc,
/// /sys and /etc, so that tests can show it another machine, which has the GPUs that `libraries`
/// know, or else those in the driver's files. What cannot be read stays unknown; throws nothing.
System probe_system(const std::string& path, const std::string& root = "",
                    const GpuLibraries& libraries = gpu_libraries());

/// Bytes that the limit on this process's addresses leaves it (ulimit -v); none where there is none.
std::optional<int64_t> address_space_left();

// The parsers, of a file's whole text.

/// cgroup v2 cpu.max: "<quota|max> <period>". 0: no limit or not understood.
double parse_cpu_max(std::string_view text);
/// Fills total and available from /proc/meminfo; kernels without MemAvailable get MemFree + Buffers
/// + Cached.
void parse_meminfo(std::string_view text, Memory& memory);
/// A limit in bytes: "max", nonsense and the huge numbers cgroup v1 shows for none are 0.
int64_t parse_limit(std::string_view text);
/// Fills model, present, cores and vector_units from /proc/cpuinfo (x86 and ARM).
void parse_cpuinfo(std::string_view text, Processor& processor);
/// The group of this process in /proc/self/cgroup: of `controller` in version 1, of version 2 when
/// that is empty. Empty when there is none.
std::string parse_cgroup(std::string_view text, std::string_view controller);
/// Processors or nodes in a list as the kernel writes it: "0-3,8" has five. 0: not understood.
int parse_list_count(std::string_view text);
/// "48K", "1024K", "32M" in bytes; 0: not understood.
int64_t parse_size(std::string_view text);
/// The word in brackets: "always [madvise] never" says madvise. Empty: none.
std::string parse_choice(std::string_view text);

/// What will make a run with `threads` threads slow or fail, one sentence each, with what to do.
std::vector<std::string> system_warnings(const System& system, int threads);

/// 1.5 GiB, 512 MiB.
std::string bytes_text(int64_t bytes);

}  // namespace maglev
