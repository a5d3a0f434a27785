// A launch: blocks one after another, threads of a block as fibers that change places only where
// they wait for each other.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mma.h>
#include <ucontext.h>
#include <unordered_map>
#include <vector>

#include <cuda_runtime.h>
#include <sys/mman.h>

#include "tests/emulation/capture.h"
#include "tests/emulation/running.h"
#include "tests/emulation/symbols.h"
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// where kernels look, who may take them for constants
uint3 emulated_thread_index asm("threadIdx");
uint3 emulated_block_index asm("blockIdx");
uint3 emulated_block_size asm("blockDim");
uint3 emulated_grid_size asm("gridDim");

namespace maglev::emulation {
namespace {

// a guard is whole pages, of which ARM has larger ones
constexpr size_t kStackBytes = 256 << 10, kGuardBytes = 64 << 10;
constexpr size_t kSharedBytes = 48 << 10;

/// A stack and where it was left. Without AddressSanitizer, contexts are entered once and then
/// changed by the compiler's own jumps, which cost no system call and keep no more than three
/// words.
struct Fiber {
  bool entered = false;
  std::byte* stack = nullptr;
  size_t stack_bytes = 0;
  void* fake_stack = nullptr;
  ucontext_t context = {};
  void* jump[5] = {};
};

enum class State { ready, barrier, warp, done };

struct Thread {
  State state = State::ready;
  Fiber* fiber = nullptr;
  EmulatedPlace place;
  unsigned mask = 0;
  bool early = true;       // has not waited for the launches ahead yet
  bool memory = false;     // waits in __syncwarp, which orders memory, not in a shuffle
  uint64_t given[2] = {};  // to this shuffle and the one before
  unsigned shuffles = 0;
  uint16_t tiles[2][2][8] = {};  // the same of a product of tiles
};

struct Warp {
  uint32_t time = 1;
  unsigned absent = 0, waiting = 0;  // lanes that have ended or never were; that wait for others
};

struct Launch {
  const void* kernel = nullptr;
  void (*call)(const void*, void**) = nullptr;
  void** places = nullptr;
  std::string name;
  dim3 grid, block;
  uint32_t block_threads = 1;
  size_t shared_bytes = 0;
};

struct Device {
  Launch launch;
  std::vector<Thread> threads;
  std::vector<uint3> indices;  // of a block's threads
  std::vector<Warp> warps;
  uint32_t current = 0, live = 0, at_barrier = 0;
  uint64_t blocks_run = 0;
  std::string fault;
  const char* wrong_shuffle = nullptr;  // what is wrong with the running thread's
  bool in_kernel = false;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Fiber*> idle;
  Fiber main{.entered = true};
  std::map<std::string, int64_t> counts;
  int64_t dependent = 0;
};
Device& device() {
  static auto* one = new Device;
  return *one;
}

std::string text(unsigned x, unsigned y, unsigned z) {
  return "(" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
}
std::string text(const dim3& d) { return text(d.x, d.y, d.z); }

std::string text(const EmulatedPlace& place) {
  const char* slash = std::strrchr(place.file, '/');
  return std::string(slash ? slash + 1 : place.file) + ":" + std::to_string(place.line);
}

uint3 index_in(const dim3& size, uint32_t i) {
  return {i % size.x, i / size.x % size.y, i / size.x / size.y};
}

// fibers

#ifndef __SANITIZE_ADDRESS__
// no function jumps that marks a place
[[gnu::noinline, noreturn]] void go_on(Fiber& to) {
  if (to.entered) __builtin_longjmp(to.jump, 1);
  to.entered = true;
  setcontext(&to.context);
  __builtin_unreachable();
}
#endif

[[gnu::noinline]] void change(Fiber& from, Fiber& to) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.stack_bytes);
  swapcontext(&from.context, &to.context);
  __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#else
  if (__builtin_setjmp(from.jump) == 0) go_on(to);
#endif
}

void run_on_host() { running.stack = 0, running.stack_bytes = SIZE_MAX; }

// runs one thread after another: a fiber is given back where its thread ends
void live() {
  Device& d = device();
#ifdef __SANITIZE_ADDRESS__
  const void* stack = nullptr;
  __sanitizer_finish_switch_fiber(nullptr, &stack, &d.main.stack_bytes);
  d.main.stack = static_cast<std::byte*>(const_cast<void*>(stack));
#endif
  for (;;) {
    d.launch.call(d.launch.kernel, d.launch.places);
    run_on_host();
    Thread& mine = d.threads[d.current];
    if (mine.early) fault("ends without wait_for_earlier(), with which every kernel begins");
    mine.state = State::done;
    Fiber& fiber = *mine.fiber;
    d.idle.push_back(&fiber);
    change(fiber, d.main);
  }
}

void prepare(Fiber& fiber) {
  fiber.entered = false;
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(fiber.stack, fiber.stack_bytes);
#endif
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack;
  fiber.context.uc_stack.ss_size = fiber.stack_bytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, live, 0);
}

Fiber& idle_fiber() {
  Device& d = device();
  if (d.idle.empty()) {
    auto fiber = std::make_unique<Fiber>();
    void* memory = mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    MAGLEV_ASSERT(memory != MAP_FAILED, "a stack");
    // a thread that takes more ends at once, not in another's stack
    mprotect(memory, kGuardBytes, PROT_NONE);
    fiber->stack = static_cast<std::byte*>(memory) + kGuardBytes;
    fiber->stack_bytes = kStackBytes;
    prepare(*fiber);
    d.idle.push_back(fiber.get());
    d.fibers.push_back(std::move(fiber));
  }
  Fiber& fiber = *d.idle.back();
  d.idle.pop_back();
  return fiber;
}

void be(uint32_t t) {
  Device& d = device();
  d.current = t;
  emulated_thread_index = d.indices[t];
  running.thread = running.block_begin + t;
  running.warp_time = d.warps[t / 32].time;
  running.early = d.threads[t].early;
}

void resume(uint32_t t) {
  Device& d = device();
  Thread& thread = d.threads[t];
  if (!thread.fiber) thread.fiber = &idle_fiber();
  be(t);
  running.stack = reinterpret_cast<uintptr_t>(thread.fiber->stack);
  running.stack_bytes = thread.fiber->stack_bytes;
  d.in_kernel = true;
  change(d.main, *thread.fiber);
  d.in_kernel = false;
  run_on_host();
}

// leaves the thread where it is until somebody finds it ready
void wait(State state) {
  Device& d = device();
  Thread& mine = d.threads[d.current];
  mine.state = state;
  change(*mine.fiber, d.main);
}

// who waits

std::string waits(const Thread& thread) {
  return (thread.state == State::barrier ? "__syncthreads at "
          : thread.memory                ? "__syncwarp at "
                                         : "a shuffle at ") +
         text(thread.place);
}

std::string named_in_block(uint32_t t) {
  const uint3 i = index_in(device().launch.block, t);
  return "thread " + text(i.x, i.y, i.z);
}

void release_barrier() {
  Device& d = device();
  for (uint32_t t = 1; t < d.threads.size(); ++t) {
    const Thread &first = d.threads[0], &other = d.threads[t];
    if (other.place.line == first.place.line &&
        (other.place.file == first.place.file ||
         std::strcmp(other.place.file, first.place.file) == 0))
      continue;
    be(t);
    fault("waits in " + waits(other) + " while " + named_in_block(0) + " waits in " + waits(first) +
          ": all threads of a block must come to the same barrier");
  }
  uint32_t now = 0;
  for (const Warp& warp : d.warps) now = std::max(now, warp.time + 1);
  MAGLEV_ASSERT(now < 1u << 18, "few enough barriers for a stamp");
  for (Warp& warp : d.warps) warp.time = now;
  running.block_time = now;
  d.at_barrier = 0;
  for (Thread& thread : d.threads) thread.state = State::ready;
}

// lets the lanes of a warp go on that all wait for each other
void release_warp(uint32_t t) {
  Device& d = device();
  Warp& warp = d.warps[t / 32];
  const Thread& mine = d.threads[t];
  if (mine.mask & ~(warp.waiting | warp.absent)) return;
  const uint32_t first = t / 32 * 32,
                 count = std::min<uint32_t>(32, uint32_t(d.threads.size()) - first);
  bool all = true;
  for (uint32_t l = 0; l < count; ++l) {
    const Thread& other = d.threads[first + l];
    if (other.state == State::done) continue;
    const bool named = mine.mask >> l & 1;
    all &= named;
    if (named && (other.state != State::warp || other.mask != mine.mask ||
                  other.memory != mine.memory || other.place.line != mine.place.line))
      return;
  }
  // only a warp as a whole takes a step in time
  if (all && mine.memory) ++warp.time;
  const unsigned mask = mine.mask;
  for (uint32_t l = 0; l < count; ++l)
    if ((mask >> l & 1) && d.threads[first + l].state == State::warp)
      d.threads[first + l].state = State::ready;
  warp.waiting &= ~mask;
}

// nobody can go on: says whom a thread waits for
[[noreturn]] void stuck() {
  Device& d = device();
  uint32_t who = 0;
  while (d.threads[who].state == State::done) ++who;
  const Thread& waiting = d.threads[who];
  uint32_t missing = 0;
  for (uint32_t t = 0; t < d.threads.size(); ++t) {
    const Thread& other = d.threads[t];
    const bool same = other.state == waiting.state && other.place.line == waiting.place.line;
    const bool wanted =
        waiting.state == State::barrier || (t / 32 == who / 32 && waiting.mask >> t % 32 & 1);
    if (t != who && wanted && !same) {
      missing = t;
      break;
    }
  }
  const Thread& other = d.threads[missing];
  be(who);
  fault("waits in " + waits(waiting) + " for " + named_in_block(missing) +
        (other.state == State::done ? ", which has ended" : ", which waits in " + waits(other)));
}

void run_block(uint32_t block) {
  Device& d = device();
  const uint32_t count = d.launch.block_threads;
  emulated_block_index = index_in(d.launch.grid, block);
  d.threads.assign(count, {});
  d.warps.assign((count + 31) / 32, {});
  if (count % 32) d.warps.back().absent = ~0u << count % 32;
  d.live = count, d.at_barrier = 0;
  running.block_begin = block * count, running.block_threads = count;
  running.block_time = 1, running.block_serial = ++d.blocks_run;
  while (d.live > 0) {
    bool went_on = false;
    for (uint32_t t = 0; t < count; ++t) {
      if (d.threads[t].state != State::ready) continue;
      resume(t);
      if (!d.fault.empty()) throw Fault(d.fault);
      if (d.wrong_shuffle) fault("shuffles at " + text(d.threads[t].place) + d.wrong_shuffle);
      went_on = true;
      const Thread& thread = d.threads[t];
      Warp& warp = d.warps[t / 32];
      if (thread.state == State::warp) {
        warp.waiting |= 1u << t % 32;
        release_warp(t);
      }
      if (thread.state == State::barrier && ++d.at_barrier == count) release_barrier();
      if (thread.state != State::done) continue;
      --d.live;
      warp.absent |= 1u << t % 32;
      // lanes may wait for those that are left
      for (uint32_t l = t / 32 * 32; l < std::min(count, (t / 32 + 1) * 32); ++l)
        if (d.threads[l].state == State::warp) release_warp(l);
    }
    if (d.live > 0 && !went_on) stuck();
  }
}

// threads that were left in the middle never go on
void abandon() {
  Device& d = device();
  d.idle.clear();
  for (const auto& fiber : d.fibers) {
    prepare(*fiber);
    d.idle.push_back(fiber.get());
  }
  d.fault.clear();
  d.wrong_shuffle = nullptr;
  d.in_kernel = false;
  run_on_host();
}

std::string name_of(const void* kernel) {
  static std::unordered_map<const void*, std::string> names;
  std::string& name = names[kernel];
  if (!name.empty()) return name;
  const Symbol* symbol = symbol_at(reinterpret_cast<uintptr_t>(kernel));
  return name = symbol ? kernel_name(*symbol) : "of an unknown name";
}

void expect_limits(const Launch& l, size_t dynamic_bytes) {
  const auto refuse = [&](const std::string& what) {
    throw Fault("[emulated device] kernel " + l.name + ": " + what);
  };
  const dim3 &b = l.block, &g = l.grid;
  const uint64_t threads = uint64_t(b.x) * b.y * b.z;
  if (threads == 0 || threads > 1024 || b.x > 1024 || b.y > 1024 || b.z > 64)
    refuse("launched with blocks of " + text(b) +
           " threads; a block has 1 to 1024, at most (1024, 1024, 64)");
  if (g.x == 0 || g.y == 0 || g.z == 0)
    refuse("launched with a grid of " + text(g) + " blocks; there must be one each way");
  if (g.x > 0x7fffffffu || g.y > 65535 || g.z > 65535)
    refuse("launched with a grid of " + text(g) + " blocks; most are (2147483647, 65535, 65535)");
  if (dynamic_bytes > kSharedBytes)
    refuse("launched with " + std::to_string(dynamic_bytes) +
           " bytes of dynamic shared memory; a block has " + std::to_string(kSharedBytes));
  MAGLEV_ASSERT(uint64_t(g.x) * g.y * g.z * threads < (1u << 27), "few enough threads for a stamp");
}

/// Arguments of a launch as long as it may be run.
struct KeptArguments {
  explicit KeptArguments(const EmulatedArguments& given) {
    size_t words = 0;
    for (size_t i = 0; i < given.count; ++i) words += words_of(given.bytes[i]);
    memory.resize(words);
    words = 0;
    for (size_t i = 0; i < given.count; ++i) {
      places.push_back(std::memcpy(&memory[words], given.places[i], given.bytes[i]));
      words += words_of(given.bytes[i]);
    }
  }
  static size_t words_of(size_t bytes) {
    return (bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t);
  }

  std::vector<std::max_align_t> memory;
  std::vector<void*> places;
};

void run_grid(const Launch& launch, size_t shared_bytes, cudaStream_t stream) {
  Device& d = device();
  d.launch = launch;
  expect_limits(d.launch, shared_bytes);
  ++d.counts[d.launch.name];
  begin_work(stream);
  running.thread = 0;
  const dim3 &block = launch.block, &grid = launch.grid;
  emulated_block_size = {block.x, block.y, block.z};
  emulated_grid_size = {grid.x, grid.y, grid.z};
  d.indices.resize(launch.block_threads);
  for (uint32_t t = 0; t < launch.block_threads; ++t) d.indices[t] = index_in(block, t);
  try {
    begin_dynamic_shared(shared_bytes);
    for (uint32_t b = 0; b < grid.x * grid.y * grid.z; ++b) run_block(b);
  } catch (const Fault&) {
    abandon();
    throw;
  }
}

}  // namespace

std::string named_thread(uint32_t thread) {
  const Launch& l = device().launch;
  const uint3 b = index_in(l.grid, thread / l.block_threads);
  return "block " + text(b.x, b.y, b.z) + ", " + named_in_block(thread % l.block_threads);
}

std::string named_work() {
  const Launch& l = device().launch;
  return l.kernel ? "kernel " + l.name : l.name;
}

void fault(const std::string& what) {
  Device& d = device();
  run_on_host();
  std::string message = "[emulated device] kernel " + d.launch.name + ", " +
                        named_thread(running.thread) + ": " + what;
  if (!d.in_kernel) throw Fault(message);
  // no exception crosses a kernel: its launch throws
  d.fault = std::move(message);
  change(*d.threads[d.current].fiber, d.main);
  __builtin_unreachable();
}

void use_shared(size_t bytes) {
  Launch& l = device().launch;
  l.shared_bytes += bytes;
  if (l.shared_bytes > kSharedBytes)
    fault("needs " + std::to_string(l.shared_bytes) +
          " bytes of shared memory or more; a block has " + std::to_string(kSharedBytes));
}

void begin_host_copy(const char* name) {
  device().launch = {.name = name, .grid = {}, .block = {}};
  running.early = false;
  running.thread = running.block_begin = 0, running.block_threads = 1;
}

const std::map<std::string, int64_t>& launches() { return device().counts; }
int64_t dependent_launches() { return device().dependent; }
void clear_launches() { device().counts.clear(), device().dependent = 0; }

}  // namespace maglev::emulation

using namespace maglev::emulation;

void __syncthreads(EmulatedPlace place) {
  device().threads[device().current].place = place;
  wait(State::barrier);
}

void __syncwarp(unsigned mask, EmulatedPlace place) {
  Thread& mine = device().threads[device().current];
  mine.place = place, mine.mask = mask, mine.memory = true;
  wait(State::warp);
}

int emulated_lane() { return int(device().current % 32); }

uint64_t emulated_shuffle(unsigned mask, uint64_t bits, int source, EmulatedPlace place) {
  Device& d = device();
  Thread& mine = d.threads[d.current];
  const uint32_t first = d.current / 32 * 32;
  const auto expect = [&](bool holds, const char* why) {
    if (holds) return;
    d.wrong_shuffle = why;
    change(*mine.fiber, d.main);
  };
  mine.place = place, mine.mask = mask, mine.memory = false;
  expect(mask >> d.current % 32 & 1, " with a mask without itself");
  const unsigned turn = mine.shuffles++ % 2;
  mine.given[turn] = bits;
  wait(State::warp);
  const uint32_t from = first + uint32_t(source);
  expect(
      (mask >> source & 1) && from < d.threads.size() && d.threads[from].shuffles >= mine.shuffles,
      " with a lane that takes no part");
  return d.threads[from].given[turn];
}

void emulated_tile_product(const uint16_t (&a)[8], const uint16_t (&b)[8], float (&sum)[8],
                           EmulatedPlace place) {
  Device& d = device();
  Thread& mine = d.threads[d.current];
  const uint32_t first = d.current / 32 * 32, lane = d.current % 32;
  const unsigned turn = mine.shuffles++ % 2;
  std::memcpy(mine.tiles[turn][0], a, sizeof a), std::memcpy(mine.tiles[turn][1], b, sizeof b);
  mine.place = place, mine.mask = ~0u, mine.memory = false;
  wait(State::warp);
  for (uint32_t l = 0; l < 32; ++l)
    if (first + l >= d.threads.size() || d.threads[first + l].shuffles < mine.shuffles) {
      d.wrong_shuffle = " tiles with a lane that takes no part";
      change(*mine.fiber, d.main);
    }
  // a lane holds half a row of each tile: row k of b is with lanes 2 k and 2 k + 1
  const auto number = [&](uint32_t of, int tile, uint32_t i) {
    const uint32_t bits = uint32_t(d.threads[first + of].tiles[turn][tile][i]) << 16;
    return __uint_as_float(bits);
  };
  for (uint32_t k = 0; k < 16; ++k) {
    const float x = number(lane / 2 * 2 + k / 8, 0, k % 8);
    for (uint32_t i = 0; i < 8; ++i) sum[i] += x * number(2 * k + lane % 2, 1, i);
  }
}

void emulated_tile_place(const void* tile, size_t line_bytes) {
  if (reinterpret_cast<uintptr_t>(tile) % 32 != 0 || line_bytes % 16 != 0)
    fault("reads or writes a tile that does not begin at 32 bytes, or whose lines of " +
          std::to_string(line_bytes) + " are not whole 16 bytes");
}

void* emulated_dynamic_shared() { return dynamic_shared(); }

void emulated_wait_for_earlier() {
  Device& d = device();
  running.early = d.threads[d.current].early = false;
}

cudaError_t emulated_launch(const void* kernel, void (*call)(const void*, void**),
                            const cudaLaunchConfig_t& config, const EmulatedArguments& arguments) {
  const std::string name = name_of(kernel);
  const dim3 grid = config.gridDim, block = config.blockDim;
  const size_t shared_bytes = config.dynamicSmemBytes;
  const auto is_early = [](const cudaLaunchAttribute& a) {
    return a.id == cudaLaunchAttributeProgrammaticStreamSerialization &&
           a.val.programmaticStreamSerializationAllowed;
  };
  if (std::any_of(config.attrs, config.attrs + config.numAttrs, is_early)) ++device().dependent;
  // by value, as the device takes them
  const auto kept = std::make_shared<KeptArguments>(arguments);
  give(config.stream, name, [=](cudaStream_t on) {
    const std::lock_guard lock(device_mutex());
    run_grid({.kernel = kernel,
              .call = call,
              .places = kept->places.data(),
              .name = name,
              .grid = grid,
              .block = block,
              .block_threads = block.x * block.y * block.z},
             shared_bytes, on);
  });
  return cudaSuccess;
}
