#pragma once
// What this processor's matrix products are worth, beside what is measured of updates.

#include <algorithm>

#include <ATen/ATen.h>

#include "base/core/clock.h"

namespace maglev {

/// Operations a second of one thread, in products of 512 by 512 in f32: the best of 30.
inline double product_rate() {
  auto a = at::rand({512, 512}), b = at::rand({512, 512}), out = at::empty({512, 512});
  double best = 1e9;
  for (int r = 0; r < 30; ++r) {
    const double start = thread_cpu_s();
    at::mm_out(out, a, b);
    best = std::min(best, thread_cpu_s() - start);
  }
  return 2. * 512 * 512 * 512 / best;
}

}  // namespace maglev
