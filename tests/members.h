#pragma once
// Processes of a group that are this test program once more, each with one test to run: a disabled
// one, which nobody else runs.

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace maglev {

/// A command for ProcessGroup::lead that runs test `name`, e.g. "ProcessGroup.DISABLED_member".
inline std::vector<std::string> member_command(const std::string& name) {
  return {"/proc/self/exe", "--gtest_also_run_disabled_tests", "--gtest_filter=" + name};
}

/// In such a process: its place.
inline std::string own_place() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string words{std::istreambuf_iterator<char>(file), {}};
  words.pop_back();
  return words.substr(words.rfind('\0') + 1);
}

}  // namespace maglev
