#pragma once
// Memory of the emulated device's tensors, and pinned memory beside it. As torch's own allocator it
// keeps what is given back for later ones of the same stream; graphs have pools of their own. What
// no tensor holds is out of bounds for kernels, but for a pool's, which graphs go on using.

#include <cstddef>
#include <functional>
#include <vector>

#include <c10/core/Allocator.h>

namespace maglev::emulation {

/// Of device 0.
c10::Allocator& device_allocator();
c10::Allocator& pinned_allocator();
bool is_pinned(const void* memory);

/// Bytes that tensors hold, with what is kept for later ones, and the most that they held since
/// forget_peak().
struct MemoryInUse {
  size_t held = 0, kept = 0, most = 0;
};
MemoryInUse memory_in_use();
void forget_peak();
/// Tensors of the device may hold so many bytes from here on, 0: any. One that is refused tells
/// `refused` first, outside of all locks, of the bytes it asked for.
void limit_memory(size_t bytes);
void on_refusal(std::function<void(size_t asked)> refused);
/// Gives back what is kept outside of pools.
void empty_cache();

/// What the captured stream's work allocates comes from `pool` from here on. One pool at a time.
void begin_pool(c10::MempoolId_t pool);
/// False where it did not.
bool end_pool(c10::MempoolId_t pool);

/// What all of the device's and pinned memory holds.
using MemoryCopy = std::vector<std::pair<void*, std::vector<std::byte>>>;
MemoryCopy copy_of_memory();
void restore_memory(const MemoryCopy& copy);

}  // namespace maglev::emulation
