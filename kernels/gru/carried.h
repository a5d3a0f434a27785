#pragma once
// What a recurrent state carries to the next step: rows of the step behind it times `keep`, which
// is 0 where an episode begins and 1 elsewhere. Written beside what a step gives, and on the way
// back read beside its gradient, so that no pass over states only masks them.

#include <cstdint>

#include "base/core/hd.h"

namespace maglev {

/// T: float where it is written, const float where its gradient is read.
template <class T>
struct Carried {
  T* data = nullptr;  ///< [rows][row]; null: nothing is carried
  int64_t row = 0;
  const float* keep = nullptr;  ///< [rows]

  MAGLEV_HD T* of(int64_t r) const { return data + r * row; }
};

}  // namespace maglev
