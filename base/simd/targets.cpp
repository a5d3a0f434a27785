#include "base/simd/targets.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include <hwy/targets.h>

#include "base/core/find.h"

namespace maglev {
namespace {

// Highway's better targets are lower bits
struct Level {
  const char* name;
  int64_t target;
  bool fma;  // products and sums are rounded together
};
#if HWY_ARCH_ARM
// Highway from 1.0.4 on has the same without instructions for ciphers, as its last one
#ifdef HWY_NEON_WITHOUT_AES
constexpr int64_t kNeon = HWY_NEON_WITHOUT_AES;
#else
constexpr int64_t kNeon = HWY_NEON;
#endif
constexpr Level kLevels[] = {{"neon", kNeon, true}};
#else
constexpr Level kLevels[] = {
    {"avx512", HWY_AVX3, true}, {"avx2", HWY_AVX2, true}, {"sse4", HWY_SSE4, false}};
#endif

// written before any kernel runs
bool limited = false;

bool has(int64_t target) {
  const int64_t supported = hwy::SupportedTargets();
  return (supported & -supported) <= target;
}

// the best that kernels run with now; null: plain C++
const Level* level_now() {
  const auto* level =
      std::ranges::find_if(kLevels, [](const Level& one) { return has(one.target); });
  return level == std::end(kLevels) ? nullptr : level;
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

bool simd_has_fma() {
  const Level* level = level_now();
  return level && level->fma;
}

std::string simd_name() {
  const Level* level = level_now();
  return level ? level->name : "less";
}

}  // namespace maglev
