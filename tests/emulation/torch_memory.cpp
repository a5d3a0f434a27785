#include "tests/emulation/torch_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include "base/core/error.h"
#include "tests/emulation/capture.h"
#include "tests/emulation/device.h"
#include "tests/emulation/running.h"

namespace maglev::emulation {
namespace {

// around a block, nobody's; and what sizes are rounded up to
constexpr size_t kAround = 256;

constexpr c10::MempoolId_t kNone{0, 0};

/// What blocks are given back to: those that one may stand for another.
struct Shelf {
  size_t bytes = 0;
  bool pinned = false;
  c10::MempoolId_t pool = kNone;
  cudaStream_t stream = nullptr;  // whose work is ordered: it alone is given the block again
  auto operator<=>(const Shelf&) const = default;
};

struct Block {
  Shelf shelf;
  bool held = false;
};

/// Under the device's mutex: an operation that holds it allocates.
class Blocks {
 public:
  void* take(size_t bytes, bool pinned) {
    if (!pinned && refuses(bytes)) {
      if (refused_) refused_(bytes);
      TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ", bytes,
                       " bytes.");
    }
    const std::lock_guard lock(device_mutex());
    cudaStream_t stream = pinned ? nullptr : c10::cuda::getCurrentCUDAStream().stream();
    const bool pooled = !pinned && pool_ != kNone && captured(stream);
    const c10::MempoolId_t pool = pooled ? pool_ : kNone;
    const size_t rounded = (bytes + kAround - 1) / kAround * kAround;
    const Shelf shelf{.bytes = rounded, .pinned = pinned, .pool = pool, .stream = stream};
    std::vector<void*>& kept = kept_[shelf];
    const bool fresh = kept.empty();
    if (fresh) {
      auto* begin = static_cast<std::byte*>(std::aligned_alloc(kAround, rounded + 2 * kAround));
      MAGLEV_ASSERT(begin, "out of memory");
      kept.push_back(begin + kAround);
    }
    void* memory = kept.back();
    kept.pop_back();
    blocks_[memory] = {.shelf = shelf, .held = true};
    if (!pinned) held_ += rounded, most_ = std::max(most_, held_);
    // a pool's block is in bounds for good, whatever lies in it
    if (!pooled) add(memory, bytes, pinned);
    else if (fresh) add(memory, rounded, pinned);
    return memory;
  }
  void give_back(void* memory) {
    const std::lock_guard lock(device_mutex());
    Block& block = blocks_.at(memory);
    block.held = false;
    if (!block.shelf.pinned) held_ -= block.shelf.bytes;
    kept_[block.shelf].push_back(memory);
    if (block.shelf.pool == kNone) remove_memory(memory, /*kept=*/true);
  }
  bool pinned(const void* memory) {
    const std::lock_guard lock(device_mutex());
    auto after = blocks_.upper_bound(const_cast<void*>(memory));
    if (after == blocks_.begin()) return false;
    const auto& [begin, block] = *std::prev(after);
    return block.held && block.shelf.pinned &&
           memory < static_cast<const std::byte*>(begin) + std::max<size_t>(1, block.shelf.bytes);
  }
  MemoryInUse in_use() {
    const std::lock_guard lock(device_mutex());
    MemoryInUse sum{.most = most_};
    for (const auto& [memory, block] : blocks_)
      if (const Shelf& shelf = block.shelf; !shelf.pinned)
        sum.kept += shelf.bytes, sum.held += block.held ? shelf.bytes : 0;
    return sum;
  }
  void forget_peak() {
    const std::lock_guard lock(device_mutex());
    most_ = held_;
  }
  void limit(size_t bytes) {
    const std::lock_guard lock(device_mutex());
    limit_ = bytes;
  }
  void on_refusal(std::function<void(size_t)> refused) { refused_ = std::move(refused); }
  void empty_cache() {
    const std::lock_guard lock(device_mutex());
    for (auto& [shelf, kept] : kept_) {
      if (shelf.pool != kNone) continue;
      for (void* memory : std::exchange(kept, {})) {
        blocks_.erase(memory);
        remove_memory(memory);
        std::free(static_cast<std::byte*>(memory) - kAround);
      }
    }
  }
  void begin_pool(c10::MempoolId_t pool) {
    const std::lock_guard lock(device_mutex());
    pool_ = pool;
  }
  bool end_pool(c10::MempoolId_t pool) {
    const std::lock_guard lock(device_mutex());
    if (pool_ != pool) return false;
    pool_ = kNone;
    return true;
  }
  MemoryCopy copy() {
    const std::lock_guard lock(device_mutex());
    MemoryCopy all;
    for (const auto& [memory, block] : blocks_) {
      const auto* begin = static_cast<const std::byte*>(memory);
      all.emplace_back(memory, std::vector(begin, begin + block.shelf.bytes));
    }
    return all;
  }

 private:
  static void add(void* memory, size_t bytes, bool pinned) {
    add_memory(memory, bytes,
               (pinned ? "pinned memory of " : "a tensor's memory of ") + std::to_string(bytes) +
                   " bytes");
  }

  bool refuses(size_t bytes) {
    const std::lock_guard lock(device_mutex());
    return limit_ > 0 && held_ + bytes > limit_;
  }

  size_t held_ = 0, most_ = 0, limit_ = 0;
  std::function<void(size_t)> refused_;
  std::map<void*, Block> blocks_;
  std::map<Shelf, std::vector<void*>> kept_;
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
void forget_peak() { blocks().forget_peak(); }
void limit_memory(size_t bytes) { blocks().limit(bytes); }
void on_refusal(std::function<void(size_t)> refused) { blocks().on_refusal(std::move(refused)); }
void begin_pool(c10::MempoolId_t pool) { blocks().begin_pool(pool); }
bool end_pool(c10::MempoolId_t pool) { return blocks().end_pool(pool); }
MemoryCopy copy_of_memory() { return blocks().copy(); }
void restore_memory(const MemoryCopy& copy) {
  for (const auto& [memory, bytes] : copy) std::memcpy(memory, bytes.data(), bytes.size());
}

}  // namespace maglev::emulation
