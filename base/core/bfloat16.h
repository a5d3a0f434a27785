#pragma once
// bfloat16: the upper half of an f32, as bits.

#include <cstdint>
#include <cstring>

#include "base/core/hd.h"

namespace maglev {

/// x rounded to the nearest bfloat16, ties to even; NaN becomes a quiet NaN.
MAGLEV_HD uint16_t bfloat16_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FC0;
  return uint16_t((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace maglev
