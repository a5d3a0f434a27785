#pragma once
// A clock that only goes forward, and a thread's own.

#include <chrono>
#include <ctime>

namespace maglev {

/// Seconds since some moment that stays the same while the program runs.
inline double steady_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Seconds of processor time that the calling thread has had: other programs do not lengthen what
/// it took.
inline double thread_cpu_s() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

}  // namespace maglev
