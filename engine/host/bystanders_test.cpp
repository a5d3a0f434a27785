#include "engine/host/bystanders.h"

#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/folder.h"

namespace maglev {
namespace {

/// A machine that was busy for so many seconds, all of its processors together.
std::string machine_busy_for(double seconds) {
  const std::string root = test_folder() + "/bystanders";
  std::filesystem::create_directories(root + "/proc");
  std::ofstream(root + "/proc/stat") << "cpu  " << int64_t(seconds * double(::sysconf(_SC_CLK_TCK)))
                                     << " 0 0 900 80 0 0 0 0 0\ncpu0 1 2 3 4 5 6 7 8\n";
  return root;
}

// of this process's own processor time, however busy the machine is
void work_for(double seconds) {
  const std::clock_t end = std::clock() + std::clock_t(seconds * CLOCKS_PER_SEC);
  while (std::clock() < end) {
  }
}

TEST(Bystanders, ticks_are_busy_but_for_idle_ones_and_waits) {
  EXPECT_EQ(parse_busy_ticks("cpu  1 2 4 1000 1000 8 16 32 0 0\ncpu0 9 9 9 9 9 9 9 9\n"), 63);
  EXPECT_TRUE(std::isnan(parse_busy_ticks("")));
  EXPECT_TRUE(std::isnan(parse_busy_ticks("cpu 1 2\n")));
}

TEST(Bystanders, are_who_else_keeps_processors_busy) {
  const Bystanders others(machine_busy_for(100));
  work_for(0.2);
  // however long that took
  machine_busy_for(1e7);
  EXPECT_GT(others.processors(), 10);
  EXPECT_NE(others.note().find("was not at rest"), std::string::npos);
}

TEST(Bystanders, are_not_what_measures_nor_an_unknown_kernel) {
  const Bystanders others(machine_busy_for(100));
  work_for(0.2);
  machine_busy_for(100.2);
  EXPECT_LT(others.processors(), 0.15);
  EXPECT_EQ(others.note(), "");
  EXPECT_EQ(Bystanders("/nowhere").note(), "");
}

}  // namespace
}  // namespace maglev
