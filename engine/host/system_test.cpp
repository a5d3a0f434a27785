#include "engine/host/system.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/places.h"

namespace maglev {
namespace {

constexpr int64_t kGiB = int64_t(1) << 30;

// a folder with another machine's files
class Machine {
 public:
  Machine() {
    root_ =
        std::filesystem::path(testing::TempDir()) /
        ("machine-" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(root_);
  }
  ~Machine() { std::filesystem::remove_all(root_); }
  Machine& file(const std::string& path, const std::string& text) {
    const auto full = root_.string() + path;
    std::filesystem::create_directories(std::filesystem::path(full).parent_path());
    std::ofstream(full) << text;
    return *this;
  }
  System probe(const GpuLibraries& libraries = {}) const {
    return probe_system("/", root_.string(), libraries);
  }

 private:
  std::filesystem::path root_;
};

bool mentions(const std::vector<std::string>& warnings, const std::string& part) {
  for (const auto& warning : warnings)
    if (warning.find(part) != std::string::npos) return true;
  return false;
}

TEST(SystemProbe, a_quota_is_read_as_processors) {
  EXPECT_DOUBLE_EQ(parse_cpu_max("150000 100000\n"), 1.5);
  EXPECT_EQ(parse_cpu_max("max 100000\n"), 0);
  EXPECT_EQ(parse_cpu_max(""), 0);
  EXPECT_EQ(parse_cpu_max("100000 0"), 0);
  EXPECT_EQ(parse_cpu_max("100000"), 0);
}

TEST(SystemProbe, meminfo_gives_bytes_and_old_kernels_an_estimate) {
  Memory memory;
  parse_meminfo(
      "MemTotal:       2048 kB\nMemFree:  100 kB\nMemAvailable:   1024 kB\nBuffers: 1 kB\nCached: "
      "1 kB\n",
      memory);
  EXPECT_EQ(memory.total, 2048 * 1024);
  EXPECT_EQ(memory.available, 1024 * 1024);
  Memory old;
  parse_meminfo(
      "MemTotal: 2048 kB\nMemFree: 100 kB\nBuffers: 10 kB\nCached: 5 kB\nSwapCached: 7 kB\n", old);
  EXPECT_EQ(old.available, 115 * 1024);
}

TEST(SystemProbe, no_memory_limit_is_zero_however_it_is_written) {
  EXPECT_EQ(parse_limit("max\n"), 0);
  EXPECT_EQ(parse_limit("9223372036854771712\n"), 0);
  EXPECT_EQ(parse_limit("-1"), 0);
  EXPECT_EQ(parse_limit("1073741824\n"), kGiB);
}

TEST(SystemProbe, cpuinfo_gives_model_cores_and_vector_units) {
  const std::string one = "model name\t: Example CPU @ 3 GHz\nphysical id\t: 0\ncore id\t\t: ",
                    flags = "\nflags\t\t: fpu avx avx2 fma avx512f avx512_bf16 amx_bf16\n\n";
  Processor x86;
  parse_cpuinfo("processor\t: 0\n" + one + "0" + flags + "processor\t: 1\n" + one + "1" + flags +
                    "processor\t: 2\n" + one + "0" + flags + "processor\t: 3\n" + one + "1" + flags,
                x86);
  EXPECT_EQ(x86.model, "Example CPU @ 3 GHz");
  EXPECT_EQ(x86.present, 4);
  EXPECT_EQ(x86.cores, 2);
  EXPECT_EQ(x86.vector_units,
            (std::vector<std::string>{"avx", "avx2", "fma", "avx512", "avx512-bf16", "amx-bf16"}));
}

// Linux names no model there, and measurements are kept by it
TEST(SystemProbe, cpuinfo_of_arm_gives_the_kinds_of_cores_by_their_numbers) {
  const auto core = [](const char* number, const char* implementer, const char* part) {
    return std::string("processor\t: ") + number +
           "\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd asimdhp sve sve2 bf16\nCPU "
           "implementer\t: " +
           implementer + "\nCPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: " + part +
           "\nCPU revision\t: 1\n\n";
  };
  Processor one, two, other, none;
  parse_cpuinfo(core("0", "0x41", "0xd4f") + core("1", "0x41", "0xd4f"), one);
  EXPECT_EQ(one.model, "ARM Neoverse-V2");
  EXPECT_EQ(one.present, 2);
  EXPECT_EQ(one.cores, 0);
  EXPECT_EQ(one.vector_units, (std::vector<std::string>{"neon", "sve", "sve2", "fp16", "bf16"}));
  parse_cpuinfo(core("0", "0x41", "0xd87") + core("1", "0x41", "0xd85"), two);
  EXPECT_EQ(two.model, "ARM Cortex-A725 and ARM Cortex-X925");
  // another maker's, whose names nobody here knows
  parse_cpuinfo(core("0", "0xc0", "0xac3"), other);
  EXPECT_EQ(other.model, "ARM core 0xac3 of maker 0xc0");
  parse_cpuinfo("processor\t: 0\nFeatures\t: fp asimd\n", none);
  EXPECT_EQ(none.model, "unknown");
}

TEST(SystemProbe, the_group_of_either_version_is_found) {
  const char* both = "5:cpuacct,cpu:/batch\n4:memory:/job/7\n0::/user.slice/a:b\n";
  EXPECT_EQ(parse_cgroup(both, ""), "/user.slice/a:b");
  EXPECT_EQ(parse_cgroup(both, "cpu"), "/batch");
  EXPECT_EQ(parse_cgroup(both, "memory"), "/job/7");
  EXPECT_EQ(parse_cgroup(both, "io"), "");
}

TEST(SystemProbe, lists_sizes_and_choices_are_read_as_the_kernel_writes_them) {
  EXPECT_EQ(parse_list_count("0-3,8\n"), 5);
  EXPECT_EQ(parse_list_count("0\n"), 1);
  EXPECT_EQ(parse_list_count("3-1"), 0);
  EXPECT_EQ(parse_list_count(""), 0);
  EXPECT_EQ(parse_size("48K\n"), 48 * 1024);
  EXPECT_EQ(parse_size("32M"), int64_t(32) << 20);
  EXPECT_EQ(parse_size("large"), 0);
  EXPECT_EQ(parse_choice("always [madvise] never\n"), "madvise");
  EXPECT_EQ(parse_choice("always"), "");
  EXPECT_EQ(parse_choice("]["), "");
}

TEST(SystemProbe, caches_nodes_and_huge_pages_are_read) {
  Machine machine;
  const std::string cache = "/sys/devices/system/cpu/cpu0/cache/index";
  machine.file(cache + "0/level", "1\n")
      .file(cache + "0/type", "Data\n")
      .file(cache + "0/size", "48K\n")
      .file(cache + "0/shared_cpu_list", "0,4\n")
      .file(cache + "1/level", "3\n")
      .file(cache + "1/type", "Unified\n")
      .file(cache + "1/size", "32768K\n")
      .file(cache + "1/shared_cpu_list", "0-7\n")
      .file("/sys/devices/system/node/online", "0-1\n")
      .file("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  const System system = machine.probe();
  const auto& caches = system.processor.caches;
  ASSERT_EQ(caches.size(), 2u);
  EXPECT_EQ(caches[0].kind, "data");
  EXPECT_EQ(caches[0].shared_by, 2);
  EXPECT_EQ(caches[1].level, 3);
  EXPECT_EQ(caches[1].bytes, int64_t(32) << 20);
  EXPECT_EQ(caches[1].shared_by, 8);
  EXPECT_TRUE(mentions(system_warnings(system, 1), "memory is in 2 nodes"));
  EXPECT_TRUE(mentions(system_warnings(system, 1), "transparent huge pages are off"));
  EXPECT_TRUE(mentions(system_warnings(system, 1), "madvise a replay's observations and"));
}

TEST(SystemProbe, gpus_come_from_the_drivers_library_or_else_its_files) {
  Machine machine;
  machine.file("/proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t Example GPU\n");
  ASSERT_EQ(machine.probe().gpus.size(), 1u);
  EXPECT_EQ(machine.probe().gpus[0].name, "Example GPU");
  const System system = machine.probe({.nvml = fake_library("gpus")});
  ASSERT_EQ(system.gpus.size(), 1u);
  EXPECT_EQ(system.gpus[0].name, "Fake H100");
  EXPECT_TRUE(mentions(system_warnings(system, 1), "Fake H100 was busy 97% of the time"));
  EXPECT_TRUE(mentions(system_warnings(system, 1), "4 of 16 PCI Express lanes"));
}

TEST(SystemProbe, the_tightest_limit_on_the_way_up_counts) {
  Machine machine;
  machine.file("/proc/self/cgroup", "0::/pod/container\n")
      .file("/proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n")
      .file("/sys/fs/cgroup/pod/cpu.max", "150000 100000\n")
      .file("/sys/fs/cgroup/pod/container/cpu.max", "400000 100000\n")
      .file("/sys/fs/cgroup/pod/container/memory.max", "4294967296\n")
      .file("/sys/fs/cgroup/pod/container/memory.current", "1073741824\n");
  const System system = machine.probe();
  EXPECT_DOUBLE_EQ(system.processor.quota, 1.5);
  EXPECT_EQ(system.memory.limit, 4 * kGiB);
  EXPECT_EQ(system.memory.left(), 3 * kGiB);
}

TEST(SystemProbe, limits_of_cgroup_version_1_are_read) {
  Machine machine;
  machine.file("/proc/self/cgroup", "4:memory:/not/visible/here\n2:cpu:/\n")
      .file("/proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n")
      .file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n")
      .file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
      .file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n")
      .file("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n");
  const System system = machine.probe();
  EXPECT_DOUBLE_EQ(system.processor.quota, 2.5);
  EXPECT_EQ(system.memory.left(), kGiB);
}

TEST(SystemProbe, an_empty_machine_is_unknown_and_not_an_error) {
  Machine machine;
  const System system = machine.probe();
  EXPECT_EQ(system.os, "unknown");
  EXPECT_EQ(system.processor.quota, 0);
  EXPECT_EQ(system.memory.limit, 0);
  EXPECT_TRUE(system.gpus.empty());
}

TEST(SystemProbe, this_machine_has_processors_and_memory) {
  const System system = probe_system(".");
  EXPECT_GE(system.processor.present, system.processor.affinity);
  EXPECT_GE(system.processor.affinity, 1);
  EXPECT_GT(system.memory.total, system.memory.left());
  EXPECT_GT(system.memory.left(), 0);
  EXPECT_GT(system.disk.total, 0);
}

TEST(SystemWarnings, a_roomy_idle_machine_has_none) {
  System system;
  system.processor = {.present = 8, .cores = 8, .affinity = 8, .load = 0.2};
  system.memory = {.total = 16 * kGiB, .available = 12 * kGiB};
  system.disk = {.path = "/data", .total = 100 * kGiB, .available = 50 * kGiB};
  EXPECT_TRUE(system_warnings(system, 8).empty());
}

TEST(SystemWarnings, each_shortage_is_named) {
  System system;
  system.processor = {.present = 8,
                      .affinity = 8,
                      .quota = 1.5,
                      .governor = "powersave",
                      .turbo = false,
                      .load = 7};
  system.memory = {
      .total = 16 * kGiB, .available = 12 * kGiB, .limit = 2 * kGiB, .limit_used = kGiB};
  system.disk = {.path = "/data", .total = 100 * kGiB, .available = kGiB / 2};
  const auto warnings = system_warnings(system, 8);
  EXPECT_EQ(warnings.size(), 7u);
  for (const char* part : {"grants 1.5 of 8 processors", "8 threads on 1.5",
                           "the load is 7 on 8 processors", "powersave", "turbo is off",
                           "only 1.0 GiB of memory", "only 512 MiB of disk is left at /data"})
    EXPECT_TRUE(mentions(warnings, part)) << part;
}

}  // namespace
}  // namespace maglev
