#include "engine/device/refusal.h"

#include <mutex>
#ifdef MAGLEV_DEVICE_CODE
#include <exception>

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/csrc/cuda/memory_snapshot.h>

#include "engine/device/device.h"
#endif

namespace maglev {
namespace {

std::mutex refused_mutex;
std::optional<Refusal> refused;  // the allocator's threads write it

}  // namespace

#ifdef MAGLEV_DEVICE_CODE

void keep_refusals() {
  forget_refusal();
  // observers stay for as long as the process lives
  static std::once_flag once;
  std::call_once(once, [] {
    // the allocator knows no device before torch has set itself up
    at::globalContext().lazyInitDevice(at::kCUDA);
    c10::cuda::CUDACachingAllocator::attachOutOfMemoryObserver(
        [](int64_t, size_t asked, size_t total, size_t free) {
          Refusal now{.asked = int64_t(asked), .total = int64_t(total), .free = int64_t(free)};
          // whatever fails here, it is the refusal that is told
          try {
            const DeviceMemory memory = device_memory();
            now.in_use = memory.in_use, now.reserved = memory.reserved;
            now.blocks = torch::cuda::_memory_snapshot_pickled();
          } catch (const std::exception&) {
          }
          const std::lock_guard lock(refused_mutex);
          refused = std::move(now);
        });
  });
}

#else

void keep_refusals() {}

#endif

void forget_refusal() {
  const std::lock_guard lock(refused_mutex);
  refused.reset();
}

std::optional<Refusal> last_refusal() {
  const std::lock_guard lock(refused_mutex);
  return refused;
}

}  // namespace maglev
