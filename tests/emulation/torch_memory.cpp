#include "tests/emulation/torch_memory.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include <c10/cuda/CUDAStream.h>

#include "base/core/error.h"
#include "tests/emulation/capture.h"
#include "tests/emulation/device.h"

namespace maglev::emulation {
namespace {

// around a block, nobody's; and what sizes are rounded up to
constexpr size_t kAround = 256;

struct Block {
  size_t bytes = 0;
  bool held = false, pinned = false;
  c10::MempoolId_t pool{0, 0};
};

class Blocks {
 public:
  void* take(size_t bytes, bool pinned) {
    const std::lock_guard lock(mutex_);
    const bool pooled =
        !pinned && pool_ != kNone && captured(c10::cuda::getCurrentCUDAStream().stream());
    const c10::MempoolId_t pool = pooled ? pool_ : kNone;
    const size_t rounded = (bytes + kAround - 1) / kAround * kAround;
    for (auto& [memory, block] : blocks_) {
      if (block.held || block.pinned != pinned || block.pool != pool || block.bytes != rounded)
        continue;
      block.held = true;
      if (!pooled) add(memory, block);
      return memory;
    }
    auto* begin = static_cast<std::byte*>(std::aligned_alloc(kAround, rounded + 2 * kAround));
    MAGLEV_ASSERT(begin, "out of memory");
    void* memory = begin + kAround;
    Block& block = blocks_[memory];
    block = {.bytes = rounded, .held = true, .pinned = pinned, .pool = pool};
    add(memory, block);
    return memory;
  }
  void give_back(void* memory) {
    const std::lock_guard lock(mutex_);
    Block& block = blocks_.at(memory);
    block.held = false;
    if (block.pool == kNone) remove_memory(memory);
  }
  bool pinned(const void* memory) {
    const std::lock_guard lock(mutex_);
    auto after = blocks_.upper_bound(const_cast<void*>(memory));
    if (after == blocks_.begin()) return false;
    const auto& [begin, block] = *std::prev(after);
    return block.held && block.pinned &&
           memory < static_cast<const std::byte*>(begin) + std::max<size_t>(1, block.bytes);
  }
  MemoryInUse in_use() {
    const std::lock_guard lock(mutex_);
    MemoryInUse sum;
    for (const auto& [memory, block] : blocks_)
      if (!block.pinned) sum.kept += block.bytes, sum.held += block.held ? block.bytes : 0;
    return sum;
  }
  void empty_cache() {
    const std::lock_guard lock(mutex_);
    std::erase_if(blocks_, [](const auto& entry) {
      const auto& [memory, block] = entry;
      if (block.held || block.pool != kNone) return false;
      std::free(static_cast<std::byte*>(memory) - kAround);
      return true;
    });
  }
  void begin_pool(c10::MempoolId_t pool) {
    const std::lock_guard lock(mutex_);
    pool_ = pool;
  }
  bool end_pool(c10::MempoolId_t pool) {
    const std::lock_guard lock(mutex_);
    if (pool_ != pool) return false;
    pool_ = kNone;
    return true;
  }
  MemoryCopy copy() {
    const std::lock_guard lock(mutex_);
    MemoryCopy all;
    for (const auto& [memory, block] : blocks_) {
      const auto* begin = static_cast<const std::byte*>(memory);
      all.emplace_back(memory, std::vector(begin, begin + block.bytes));
    }
    return all;
  }

 private:
  static constexpr c10::MempoolId_t kNone{0, 0};

  static void add(void* memory, const Block& block) {
    add_memory(memory, block.bytes,
               (block.pinned ? "pinned memory of " : "a tensor's memory of ") +
                   std::to_string(block.bytes) + " bytes");
  }

  std::mutex mutex_;
  std::map<void*, Block> blocks_;
  c10::MempoolId_t pool_ = kNone;
};
Blocks& blocks() {
  static auto* all = new Blocks;
  return *all;
}

template <bool Pinned>
class Memory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* memory = blocks().take(bytes, Pinned);
    return {memory, memory, raw_deleter(),
            Pinned ? c10::Device(c10::kCPU) : c10::Device(c10::kCUDA, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return [](void* memory) { blocks().give_back(memory); };
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

c10::Allocator& device_allocator() {
  static auto* one = new Memory<false>;
  return *one;
}
c10::Allocator& pinned_allocator() {
  static auto* one = new Memory<true>;
  return *one;
}

bool is_pinned(const void* memory) { return blocks().pinned(memory); }
MemoryInUse memory_in_use() { return blocks().in_use(); }
void empty_cache() { blocks().empty_cache(); }
void begin_pool(c10::MempoolId_t pool) { blocks().begin_pool(pool); }
bool end_pool(c10::MempoolId_t pool) { return blocks().end_pool(pool); }
MemoryCopy copy_of_memory() { return blocks().copy(); }
void restore_memory(const MemoryCopy& copy) {
  for (const auto& [memory, bytes] : copy) std::memcpy(memory, bytes.data(), bytes.size());
}

}  // namespace maglev::emulation
