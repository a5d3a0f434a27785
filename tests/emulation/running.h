#pragma once
// What of a launch its parts share: who runs now, and how it says what went wrong.

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "tests/emulation/device.h"

struct EmulatedStream;

namespace maglev::emulation {

/// The running thread of the running launch, as memory.cpp asks for it at every access. Time in a
/// block goes on at each barrier: a thread's accesses come before those of another thread of its
/// block that began later, and before those of its warp's that came after a __syncwarp.
struct Running {
  uintptr_t stack = 0;            ///< where accesses are its own
  size_t stack_bytes = SIZE_MAX;  ///< all of memory while no kernel runs
  uint32_t launch = 0;            ///< number of the launch or copy, 1 to kMostLaunches
  uint32_t earlier = 0;           ///< a launch that is over before this one begins; 0: not asked
  bool early = false;             ///< has not waited for the launch ahead of its own
  uint32_t thread = 0;            ///< in the grid
  uint32_t block_begin = 0, block_threads = 1;  ///< threads of its block
  uint32_t block_time = 0;                      ///< of the last barrier
  uint32_t warp_time = 1;                       ///< of the last barrier or __syncwarp of its warp
  uint64_t block_serial = 0;  ///< a number of its own for each block that ever ran
};
extern Running running;

constexpr uint32_t kMostLaunches = 0xffff;
/// A launch or copy on `stream` begins: takes the next number. Its name is known by then.
void begin_work(EmulatedStream* stream);
/// Whether `stream` comes behind all work that `other` was given so far.
bool has_waited_for(EmulatedStream* stream, EmulatedStream* other);
/// A copy or fill is as a kernel of one thread, called `name`.
void begin_host_copy(const char* name);
/// Whether launch `number` is over before what the running thread does now, whatever the device
/// does: the launch ahead in the stream only behind wait_for_earlier(), for any may begin early.
bool comes_before(uint32_t number);
/// The running launch or copy, and launch `number`: "kernel gather (replay.cu)", "aten::copy_".
std::string named_work();
std::string named_work(uint32_t number);

/// Stops the launch: its caller gets a Fault that says who did `what`.
[[noreturn]] void fault(const std::string& what);
/// "block (0, 0, 0), thread (3, 0, 0)" of thread `thread` of the grid.
std::string named_thread(uint32_t thread);

/// Counts `bytes` to the shared memory of the running launch; a fault beyond what a block can have.
void use_shared(size_t bytes);

/// Launches are numbered anew: what earlier ones did counts as done.
void forget_accesses();
/// The copy or fill reads or writes memory, where it is the device's.
void touch(const void* memory, size_t bytes, bool write);
/// Held by whoever launches, copies or adds memory.
std::recursive_mutex& device_mutex();

/// The launch's dynamic shared memory; `bytes` may be 0.
void begin_dynamic_shared(size_t bytes);
void* dynamic_shared();

}  // namespace maglev::emulation
