// An iteration works in memory it already has: tests that a warm trainer asks the system for none,
// and counts what it asks of the heap.

#include <atomic>
#include <cstdlib>
#include <new>

#include <gtest/gtest.h>

#include "engine/host/cpu_cache.h"
#include "engine/host/machine.h"
#include "engine/train/trainer.h"

namespace {
std::atomic<int64_t> heap_allocations{0};
}

// every operator new of the program and of torch's libraries comes through here
void* operator new(std::size_t bytes) {
  heap_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace maglev {
namespace {

// one iteration of the settings below
constexpr int64_t kMostHeapAllocations = 0;

std::unique_ptr<Experiment> cartpole() {
  claim_threads();
  auto experiment = std::make_unique<Experiment>("ppo", "cartpole");
  for (const char* setting :
       {"env.count=24", "ppo.rollout=32", "ppo.minibatch=200", "ppo.shard_rows=64"})
    experiment->table().override_with(setting);
  return experiment;
}

// threads meet at different times from run to run; one thread shows exactly what an iteration needs

TEST(Allocations, an_iteration_asks_the_system_for_nothing_once_warm) {
  auto experiment = cartpole();
  Trainer trainer(*experiment, place("cpu", 1));
  for (int i = 0; i < 5; ++i) trainer.iterate(), trainer.flush();
  const int64_t before = cpu_cache_system_allocations();
  EXPECT_GT(before, 0);
  for (int i = 0; i < 10; ++i) trainer.iterate(), trainer.flush();
  EXPECT_EQ(cpu_cache_system_allocations(), before);
}

TEST(Allocations, of_the_heap_stay_below_their_bound) {
  auto experiment = cartpole();
  Trainer trainer(*experiment, place("cpu", 1));
  for (int i = 0; i < 3; ++i) trainer.iterate();
  const int64_t before = heap_allocations.load();
  trainer.iterate();
  const int64_t counted = heap_allocations.load() - before;
  EXPECT_LE(counted, kMostHeapAllocations);
  RecordProperty("heap_allocations", std::to_string(counted));
  std::printf("%lld heap allocations an iteration\n", static_cast<long long>(counted));
}

}  // namespace
}  // namespace maglev
