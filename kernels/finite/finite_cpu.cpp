#include "kernels/finite/finite.h"

#include <bit>

namespace maglev {

bool all_finite(const float* values, int64_t count) {
  constexpr uint32_t kExponent = 0x7f800000u;
  uint32_t bad = 0;
  for (int64_t i = 0; i < count; ++i)
    bad |= uint32_t((std::bit_cast<uint32_t>(values[i]) & kExponent) == kExponent);
  return bad == 0;
}

void finite_cpu(const FiniteArgs& args) {
  for (int c = 0; c < args.columns; ++c)
    if (!all_finite(args.column[c], args.count[c])) *args.flag = 0.f;
}

}  // namespace maglev
