#include "base/simd/tiles.h"

#include "base/simd/targets.h"

#if defined(MAGLEV_TILES) && defined(__linux__)
#include <cpuid.h>
#include <unistd.h>

#include <sys/syscall.h>
#endif

namespace maglev {
namespace {

#if defined(MAGLEV_TILES) && defined(__linux__)
// AMX-BF16 and AMX-TILE among what leaf 7 tells
constexpr unsigned kInstructions = 1u << 22 | 1u << 24;
// of arch_prctl: leave to use a part of the processor's state, here that of the tiles
constexpr long kAskForState = 0x1023, kTileState = 18;

bool ask_for_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & kInstructions) != kInstructions)
    return false;
  // given once it is a whole process's: threads that run already have it as well
  return syscall(SYS_arch_prctl, kAskForState, kTileState) == 0;
}
#else
bool ask_for_tiles() { return false; }
#endif

}  // namespace

bool tiles_available() {
  static const bool allowed = ask_for_tiles();
  return allowed && !simd_is_limited();
}

}  // namespace maglev
