// Every test program: tests run with the instructions MAGLEV_SIMD names, so that one machine
// imitates others.

#include <cstdio>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "base/simd/targets.h"

namespace {
// what tests/CMakeLists.txt tells ctest to count as skipped
constexpr int kSkipped = 77;
}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  try {
    maglev::limit_simd();
  } catch (const maglev::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return kSkipped;
  }
  return RUN_ALL_TESTS();
}
