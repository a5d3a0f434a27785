// Kernels run with the instructions that were named, or the best there are.

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "base/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/numeric_simd_test.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {

int64_t compiled_for() { return HWY_TARGET; }

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {
namespace {

HWY_EXPORT(compiled_for);

std::string ran_with() {
  // lower bits are better
  const int64_t target = HWY_DYNAMIC_DISPATCH(compiled_for)();
  if (target == HWY_SCALAR) return "less";
#if HWY_ARCH_ARM
  return "neon";
#else
  return target <= HWY_AVX3 ? "avx512" : target <= HWY_AVX2 ? "avx2" : "sse4";
#endif
}

TEST(Simd, kernels_run_with_what_was_chosen_also_once_somebody_asked_for_it) {
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const SimdTargets used(target);
    EXPECT_EQ(hwy::SupportedTargets(), target);
    EXPECT_EQ(HWY_DYNAMIC_DISPATCH(compiled_for)(), target);
  }
}

TEST(Simd, kernels_run_with_the_instructions_that_were_named_also_once_somebody_asked_for_them) {
  const char* named = std::getenv("MAGLEV_SIMD");
  const std::string expected = named && *named ? named : simd_name();
  EXPECT_EQ(ran_with(), expected);
  EXPECT_EQ(simd_name(), expected);
  EXPECT_EQ(simd_has_fma(), expected != "sse4" && expected != "less");
  EXPECT_EQ(ran_with(), expected);
}

}  // namespace
}  // namespace maglev
#endif
