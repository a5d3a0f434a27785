#include "tests/emulation/on_emulated_device.h"

#include <cstdlib>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include "engine/device/device.h"
#include "tests/emulation/device.h"

namespace maglev {
namespace {

int scopes = 0;

constexpr size_t kAround = 256;

void free_storage(void* memory) {
  emulation::remove_memory(memory);
  std::free(static_cast<std::byte*>(memory) - kAround);
}

/// Storages that the emulated device knows.
class DeviceStorages final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const size_t whole = (bytes + kAround - 1) / kAround * kAround + 2 * kAround;
    auto* begin = static_cast<std::byte*>(std::aligned_alloc(kAround, whole));
    TORCH_CHECK(begin, "out of memory");
    void* memory = begin + kAround;
    emulation::add_memory(memory, bytes, "a tensor's " + std::to_string(bytes) + " bytes");
    return {memory, memory, free_storage, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return free_storage; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

// before any tensor is made
const bool kInPlace = [] {
  c10::SetCPUAllocator(new DeviceStorages, /*priority=*/255);
  return true;
}();

}  // namespace

bool device_is_emulated() { return scopes > 0; }

emulation::OnEmulatedDevice::OnEmulatedDevice() { ++scopes; }
emulation::OnEmulatedDevice::~OnEmulatedDevice() { --scopes; }

}  // namespace maglev
