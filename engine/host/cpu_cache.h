#pragma once
// A caching allocator for CPU tensors. After the first iteration every tensor an update makes comes
// from memory an earlier one gave back, so nothing is asked of the system and no page is touched
// for the first time.

#include <cstdint>

namespace maglev {

/// Makes all CPU tensors of this process come from the cache, from now on. Call once, before the
/// first tensor.
void use_cpu_cache();

/// Whether torch's profiler is told of each block that is taken and given back, by its size class:
/// for as long as one records memory.
void report_cpu_cache(bool on);

/// Gives blocks that are not in use back to the system: after something large was built that leaves
/// behind what no iteration asks for again.
void release_cpu_cache();

/// At most `bytes` are held from here on, 0: as many as the system gives. Beyond them, as where the
/// system gives none, making a tensor throws c10::OutOfMemoryError.
void limit_cpu_cache(int64_t bytes);

/// The same for as long as it is there.
class CpuCacheLimit {
 public:
  explicit CpuCacheLimit(int64_t bytes) { limit_cpu_cache(bytes); }
  ~CpuCacheLimit() { limit_cpu_cache(0); }
  CpuCacheLimit(const CpuCacheLimit&) = delete;
  CpuCacheLimit& operator=(const CpuCacheLimit&) = delete;
};

/// Blocks asked of the system since the start; constant while an iteration reuses what it has.
int64_t cpu_cache_system_allocations();
/// Bytes held, in use or free.
int64_t cpu_cache_bytes();

}  // namespace maglev
