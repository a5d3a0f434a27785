#pragma once
// A clock that only goes forward, a thread's own, and the date.

#include <chrono>
#include <ctime>
#include <string>

namespace maglev {

/// Seconds since some moment that stays the same while the program runs.
inline double steady_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// What a clock of the system says, seconds.
inline double clock_s(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

/// Seconds of processor time that the calling thread has had: other programs do not lengthen what
/// it took.
inline double thread_cpu_s() { return clock_s(CLOCK_THREAD_CPUTIME_ID); }
/// The same of all of this process's threads.
inline double process_cpu_s() { return clock_s(CLOCK_PROCESS_CPUTIME_ID); }

/// The date and time as "2026-01-31T12:00:00Z".
inline std::string now_in_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts;
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace maglev
