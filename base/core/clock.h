#pragma once
// A clock that only goes forward.

#include <chrono>

namespace maglev {

/// Seconds since some moment that stays the same while the program runs.
inline double steady_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace maglev
