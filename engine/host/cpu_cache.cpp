#include "engine/host/cpu_cache.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

namespace maglev {
namespace {

constexpr size_t kAlignment = 64;
constexpr int kPerDoubling = 4;  // size classes between two powers of two: at most 25 % is unused
constexpr int kClasses = 48 * kPerDoubling;

std::atomic<int64_t> system_allocations{0};
std::atomic<int64_t> held_bytes{0};
std::atomic<int64_t> most_bytes{0};  // 0: no limit
std::atomic<bool> reported{false};

// one cache line before every block; `next` links free ones
struct Head {
  Head* next;
  int32_t size_class;
};
static_assert(sizeof(Head) <= kAlignment);

struct FreeList {
  std::atomic_flag lock = ATOMIC_FLAG_INIT;
  Head* first = nullptr;
};
std::array<FreeList, kClasses> free_lists;

// spins: a list is held for the exchange of a pointer or two
class Locked {
 public:
  explicit Locked(FreeList& list) : list_(list) {
    while (list_.lock.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~Locked() { list_.lock.clear(std::memory_order_release); }

 private:
  FreeList& list_;
};

int class_of(size_t bytes) {
  if (bytes <= kAlignment) return 0;
  const int log2 = std::bit_width(bytes - 1) - 1;  // 2^log2 < bytes <= 2^(log2+1)
  const size_t step = (size_t(1) << log2) / kPerDoubling;
  const int part = int((bytes - (size_t(1) << log2) + step - 1) / step);  // 1..kPerDoubling
  return (log2 - 6) * kPerDoubling + part;
}

size_t class_bytes(int size_class) {
  if (size_class == 0) return kAlignment;
  const int log2 = (size_class - 1) / kPerDoubling + 6, part = (size_class - 1) % kPerDoubling + 1;
  return (size_t(1) << log2) + (size_t(1) << log2) / kPerDoubling * size_t(part);
}

// bytes of a block with the line before it
size_t block_bytes(int size_class) {
  return (class_bytes(size_class) + kAlignment + kAlignment - 1) / kAlignment * kAlignment;
}

// to the profiler of the calling thread, where there is one
void report(void* data, int size_class, bool taken) {
  if (!reported.load(std::memory_order_relaxed)) return;
  const auto bytes = int64_t(class_bytes(size_class));
  const auto held = size_t(held_bytes.load(std::memory_order_relaxed));
  c10::reportMemoryUsageToProfiler(data, taken ? bytes : -bytes, held, held,
                                   c10::Device(c10::kCPU));
}

void give_back(void* data) {
  if (!data) return;
  auto* head = reinterpret_cast<Head*>(static_cast<std::byte*>(data) - kAlignment);
  report(data, head->size_class, /*taken=*/false);
  FreeList& list = free_lists[size_t(head->size_class)];
  Locked guard(list);
  head->next = list.first;
  list.first = head;
}

// null: the system or the limit gives no more. Counted as held before it is there, so that threads
// cannot pass the limit together
void* asked_of_system(size_t block) {
  const int64_t limit = most_bytes.load(std::memory_order_relaxed);
  int64_t held = held_bytes.load(std::memory_order_relaxed);
  do {
    if (limit > 0 && held + int64_t(block) > limit) return nullptr;
  } while (
      !held_bytes.compare_exchange_weak(held, held + int64_t(block), std::memory_order_relaxed));
  void* memory = std::aligned_alloc(kAlignment, block);
  if (!memory) held_bytes.fetch_sub(int64_t(block), std::memory_order_relaxed);
  return memory;
}

void* take(size_t bytes) {
  const int size_class = class_of(bytes);
  if (size_class >= kClasses) throw std::bad_alloc();
  FreeList& list = free_lists[size_t(size_class)];
  // the block that came back last: its lines may still be in a cache
  {
    Locked guard(list);
    if (Head* head = list.first) {
      list.first = head->next;
      return reinterpret_cast<std::byte*>(head) + kAlignment;
    }
  }
  // none of this class is free: one more
  const size_t block = block_bytes(size_class);
  void* memory = asked_of_system(block);
  // what other classes keep for later goes first
  if (!memory) {
    release_cpu_cache();
    memory = asked_of_system(block);
  }
  TORCH_CHECK_WITH(OutOfMemoryError, memory, "[memory] ", bytes,
                   " bytes more for a tensor, beside ", held_bytes.load(std::memory_order_relaxed),
                   " that are held");
  system_allocations.fetch_add(1, std::memory_order_relaxed);
  auto* head = new (memory) Head{nullptr, size_class};
  return reinterpret_cast<std::byte*>(head) + kAlignment;
}

class CpuCache final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    // an empty tensor has no block
    if (bytes == 0) return {nullptr, nullptr, &give_back, c10::Device(c10::kCPU)};
    void* data = take(bytes);
    report(data, class_of(bytes), /*taken=*/true);
    return {data, data, &give_back, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

}  // namespace

void use_cpu_cache() {
  static CpuCache cache;
  c10::SetCPUAllocator(&cache, /*priority=*/1);
}

void report_cpu_cache(bool on) { reported.store(on, std::memory_order_relaxed); }

void release_cpu_cache() {
  for (FreeList& list : free_lists) {
    // the whole list at once: others do not wait while it is freed
    Head* head = nullptr;
    {
      Locked guard(list);
      head = std::exchange(list.first, nullptr);
    }
    while (head) {
      held_bytes.fetch_sub(int64_t(block_bytes(head->size_class)), std::memory_order_relaxed);
      std::free(std::exchange(head, head->next));
    }
  }
}

void limit_cpu_cache(int64_t bytes) { most_bytes.store(bytes, std::memory_order_relaxed); }

int64_t cpu_cache_system_allocations() {
  return system_allocations.load(std::memory_order_relaxed);
}
int64_t cpu_cache_bytes() { return held_bytes.load(std::memory_order_relaxed); }

}  // namespace maglev
