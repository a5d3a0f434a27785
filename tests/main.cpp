// Every test program: tests run with the instructions MAGLEV_SIMD names, so that one machine
// imitates others.

#include <cstdio>
#include <string>

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
    const std::string best = maglev::simd_name();
    maglev::limit_simd();
    if (best == "avx2" && maglev::simd_is_limited() && maglev::simd_name() == best) {
      // libraries have nothing better for it either, as they have beside avx512
      std::fprintf(stderr, "[simd] avx2 is what this processor has best: tests run so unasked\n");
      return kSkipped;
    }
  } catch (const maglev::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return kSkipped;
  }
  return RUN_ALL_TESTS();
}
