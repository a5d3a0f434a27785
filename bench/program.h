#pragma once
// What programs of measurements and of comparisons share.

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace maglev {

/// Calls `run` with the words behind the program's name. Returns the exit status: 2 where it
/// throws, which is one line on standard error.
template <class Run>
int program(int argc, char** argv, const Run& run) {
  try {
    run(std::vector<std::string>(argv + 1, argv + argc));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}

}  // namespace maglev
