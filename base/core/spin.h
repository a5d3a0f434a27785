#pragma once
// What a thread does between two looks at what another is about to change.

#include <thread>

namespace maglev {

/// Leaves the core to its other thread, or to itself, for some ten nanoseconds.
inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  // not `yield`, which its cores take for nothing; this one waits until the pipeline is empty
  asm volatile("isb" ::: "memory");
#else
  std::this_thread::yield();
#endif
}

}  // namespace maglev
