#pragma once
// What the kernel says in files of /proc and /sys, and of a process's time.

#include <fstream>
#include <sstream>
#include <string>

#include <sys/resource.h>

namespace maglev {

/// A file that says it is empty, read until it ends; "" where there is none.
inline std::string proc_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return file ? text.str() : "";
}

/// Seconds of processors so far of all threads: of this process (RUSAGE_SELF), or of children that
/// were waited for (RUSAGE_CHILDREN); 0 where the kernel does not say.
inline double processor_time_s(int whose) {
  rusage used{};
  if (::getrusage(whose, &used) != 0) return 0;
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

}  // namespace maglev
