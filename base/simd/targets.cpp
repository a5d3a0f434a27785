#include "base/simd/targets.h"

#include <cstdlib>

#include <hwy/targets.h>

#include "base/core/find.h"

namespace maglev {
namespace {

// Highway's better targets are lower bits
struct Level {
  const char* name;
  int64_t target;
};
constexpr Level kLevels[] = {{"avx512", HWY_AVX3}, {"avx2", HWY_AVX2}, {"sse4", HWY_SSE4}};

// written before any kernel runs
bool limited = false;

bool has(int64_t target) {
  const int64_t supported = hwy::SupportedTargets();
  return (supported & -supported) <= target;
}

void use_simd(int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(targets);
}

}  // namespace

SimdTargets::SimdTargets(int64_t targets) : before_(hwy::SupportedTargets()) { use_simd(targets); }
SimdTargets::~SimdTargets() { use_simd(before_); }

void limit_simd() {
  const char* wanted = std::getenv("MAGLEV_SIMD");
  if (!wanted || !*wanted) return;
  const Level& level =
      find_row(std::span<const Level>(kLevels), wanted, "[simd] MAGLEV_SIMD: ", "instructions");
  if (!has(level.target))
    throw Error("[simd] MAGLEV_SIMD=" + std::string(wanted) + ", but this processor has only " +
                simd_name() + "; name fewer, or unset it");
  // not DisableTargets: then whoever asks what is supported turns the choice back to all there is
  use_simd(hwy::SupportedTargets() & ~(level.target - 1));
  limited = true;
}

bool simd_is_limited() { return limited; }

bool simd_has_avx512() { return has(HWY_AVX3); }

bool simd_has_fma() { return has(HWY_AVX2); }

std::string simd_name() {
  for (const Level& level : kLevels)
    if (has(level.target)) return level.name;
  return "less";
}

}  // namespace maglev
