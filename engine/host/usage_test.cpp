#include "engine/host/usage.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "base/core/clock.h"

namespace maglev {
namespace {

void put(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

TEST(Usage, memory_is_the_processs_own_where_the_kernel_tells_it_apart) {
  EXPECT_EQ(parse_resident("VmRSS:\t  2048 kB\nRssAnon:\t  1024 kB\n"), 1024 * 1024);
  EXPECT_EQ(parse_resident("VmRSS:\t  2048 kB\n"), 2048 * 1024);
  EXPECT_EQ(parse_resident(""), 0);
  EXPECT_EQ(parse_resident("RssAnon:"), 0);
}

TEST(Usage, pressure_is_a_share) {
  EXPECT_DOUBLE_EQ(parse_pressure("some avg10=12.50 avg60=0.00 total=3\nfull avg10=0.00\n"), 0.125);
  EXPECT_TRUE(std::isnan(parse_pressure("")));
}

TEST(Usage, energy_of_all_packages_goes_on_where_a_counter_begins_anew) {
  Usage before, after;
  before.energy = {{1'000'000, 10'000'000}, {9'000'000, 10'000'000}};
  after.energy = {{3'500'000, 10'000'000}, {500'000, 10'000'000}};
  EXPECT_DOUBLE_EQ(joules_between(before, after), 2.5 + 1.5);
  after.energy.clear();
  EXPECT_TRUE(std::isnan(joules_between(before, after)));
}

TEST(Usage, is_read_from_the_files_of_a_machine) {
  const std::string root = testing::TempDir() + "usage";
  std::filesystem::remove_all(root);
  const Usage nothing = sample_usage(root);
  EXPECT_EQ(nothing.resident, 0);
  EXPECT_TRUE(std::isnan(nothing.memory_pressure));
  EXPECT_TRUE(nothing.energy.empty());
  EXPECT_TRUE(std::isnan(nothing.queued_s));
  put(root + "/proc/self/status", "RssAnon: 8 kB\n");
  put(root + "/proc/pressure/memory", "some avg10=50.00 avg60=0.00\n");
  put(root + "/proc/self/task/7/schedstat", "100 2500000000 3\n");
  for (const char* package : {"0", "1"}) {
    const std::string folder = root + "/sys/class/powercap/intel-rapl:" + package;
    put(folder + "/energy_uj", "77\n"), put(folder + "/max_energy_range_uj", "100\n");
    put(folder + "/name", "package-" + std::string(package) + "\n");
  }
  // the whole platform, which has the packages in it
  const std::string platform = root + "/sys/class/powercap/intel-rapl:2";
  put(platform + "/energy_uj", "999\n"), put(platform + "/max_energy_range_uj", "1000\n");
  put(platform + "/name", "psys\n");
  const Usage all = sample_usage(root);
  EXPECT_EQ(all.resident, 8192);
  EXPECT_DOUBLE_EQ(all.memory_pressure, 0.5);
  EXPECT_DOUBLE_EQ(all.queued_s, 2.5);
  ASSERT_EQ(all.energy.size(), 2u);
  EXPECT_EQ(all.energy[1].count, 77);
  std::filesystem::remove_all(root);
}

TEST(Usage, processor_time_grows_with_work) {
  const Usage before = sample_usage();
  EXPECT_GT(before.resident, 1 << 20);
  volatile double sum = 0;
  // getrusage counts in steps of the kernel's clock
  Usage after = before;
  while (after.processor_s == before.processor_s && after.at_s < before.at_s + 200) {
    for (int i = 0; i < 1'000'000; ++i) sum = sum + 1;
    after = sample_usage();
  }
  EXPECT_GT(after.processor_s, before.processor_s);
}

}  // namespace
}  // namespace maglev
