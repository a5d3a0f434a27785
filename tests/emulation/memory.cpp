// Every load and store of a kernel: whether it is in bounds, of memory that was written, and in an
// order with what other threads did there.
//
// Memory is filled with a word that is a NaN as f32 and as bf16, so what still holds it was never
// written, by whatever means. Of each word a shadow keeps the last write and the last reads, byte
// by byte in pages where narrower accesses come. A write stamp covers all earlier accesses, for it
// came after them (Flanagan and Freund, "FastTrack: efficient and precise dynamic race detection",
// 2009).

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <cuda_runtime.h>

#include "tests/emulation/running.h"
#include "tests/emulation/symbols.h"

namespace maglev::emulation {

Running running;

namespace {

constexpr uint32_t kUnwritten = 0xffb1ffb1;
constexpr size_t kPage = 1024;

enum class How { read, write, atomic };

/// Who accessed a word: launch, time in its block, and one thread or all that a scope says.
class Stamp {
 public:
  enum Scope : uint64_t { one, warp, block, grid };
  Stamp() = default;
  Stamp(Scope scope, bool atomic)
      : bits_(uint64_t(running.launch) << 48 | uint64_t(running.warp_time & 0x3ffff) << 30 |
              uint64_t(running.thread) << 3 | uint64_t(atomic) << 2 | scope) {}

  bool any() const { return bits_ != 0; }
  bool of_this_launch() const { return launch() == running.launch; }
  bool atomic() const { return bits_ >> 2 & 1; }
  uint32_t thread() const { return uint32_t(bits_ >> 3 & 0x7ffffff); }
  uint32_t launch() const { return uint32_t(bits_ >> 48); }

  /// Whether it comes before what the running thread does now, whatever the device does.
  bool before_now() const {
    if (!of_this_launch()) {
      if (running.early) return comes_before(launch());
      // mostly that of the word before
      if (launch() != running.earlier && !comes_before(launch())) return false;
      running.earlier = launch();
      return true;
    }
    const Scope scope = Scope(bits_ & 3);
    if (scope == one && thread() == running.thread) return true;
    if (scope == grid || !of_this_block()) return false;
    const uint32_t time = uint32_t(bits_ >> 30 & 0x3ffff);
    return time < running.block_time ||
           (scope <= warp && of_this_warp() && time < running.warp_time);
  }
  /// This one and the running thread.
  Stamp with_now(bool atomic) const {
    Scope scope = Scope(bits_ & 3);
    if (!of_this_block()) scope = grid;
    else if (!of_this_warp()) scope = std::max(scope, block);
    else if (thread() != running.thread) scope = std::max(scope, warp);
    return Stamp(scope, atomic);
  }

 private:
  bool of_this_block() const { return thread() - running.block_begin < running.block_threads; }
  bool of_this_warp() const {
    return of_this_block() &&
           (thread() - running.block_begin) / 32 == (running.thread - running.block_begin) / 32;
  }
  uint64_t bits_ = 0;
};

struct Cell {
  Stamp write, read;
  Stamp other;  // a read of another stream's that the last one does not come behind
};

/// A read of bytes [begin, end) of a page.
struct PageRead {
  Stamp stamp;
  size_t begin, end;
};

struct Page {
  std::vector<PageRead> reads;  // of third streams and more: mostly none
  size_t width = kPage;  // bytes of a cell: of the whole page as long as it is accessed as a whole
  std::vector<Cell> cells = std::vector<Cell>(1);

  void split(size_t narrower) {
    std::vector<Cell> more(kPage / narrower);
    for (size_t i = 0; i < more.size(); ++i) more[i] = cells[i * narrower / width];
    cells = std::move(more), width = narrower;
  }
  // after a write of the whole page
  void join() {
    if (width == kPage) return;
    cells = {cells.front()}, width = kPage;
  }
  // what comes before now needs no keeping
  void forget_reads() {
    std::erase_if(reads, [](const PageRead& read) { return read.stamp.before_now(); });
  }
};

using Pages = std::vector<std::unique_ptr<Page>>;

struct Region {
  uintptr_t begin;
  size_t bytes;
  std::string name;
  bool shared = false;
  uint64_t block_serial = 0;  // of the block that shared memory is of
  uint32_t launch = 0;        // that it was last used in
  Pages pages;

  bool has(uintptr_t a, size_t n) const { return a >= begin && a + n <= begin + bytes; }
};

void fill_unwritten(uintptr_t begin, size_t bytes) {
  auto* to = reinterpret_cast<std::byte*>(begin);
  for (size_t i = 0; i < bytes; i += 4)
    std::memcpy(to + i, &kUnwritten, std::min<size_t>(4, bytes - i));
}

std::recursive_mutex mutex;

class Regions {
 public:
  Region& add(Region region) {
    if (auto before = kept_.extract(region.begin)) {
      region.pages = std::move(before.mapped());
      region.pages.resize((region.bytes + kPage - 1) / kPage);
    }
    auto& place = by_begin_[region.begin];
    place = std::make_unique<Region>(std::move(region));
    return *place;
  }
  void remove(uintptr_t begin, bool kept) {
    const auto region = by_begin_.find(begin);
    if (region != by_begin_.end()) {
      if (kept) kept_[begin] = std::move(region->second->pages);
      by_begin_.erase(region);
      recent_ = {};
    }
    if (!kept) kept_.erase(begin);
  }
  void forget_accesses() {
    for (auto& [begin, region] : by_begin_) region->pages.clear();
    kept_.clear();
  }
  /// The last that begins at `a` or before it; null where there is none.
  Region* below(uintptr_t a) const {
    auto after = by_begin_.upper_bound(a);
    return after == by_begin_.begin() ? nullptr : std::prev(after)->second.get();
  }
  Region* above(uintptr_t a) const {
    auto after = by_begin_.upper_bound(a);
    return after == by_begin_.end() ? nullptr : after->second.get();
  }
  /// The one that holds them; null where none does.
  Region* find(uintptr_t a, size_t n) {
    Region*& recent = recent_[a >> 8 & (recent_.size() - 1)];
    if (recent && recent->has(a, n)) return recent;
    Region* region = below(a);
    if (!region || !region->has(a, n)) return nullptr;
    return recent = region;
  }

 private:
  std::map<uintptr_t, std::unique_ptr<Region>> by_begin_;
  std::map<uintptr_t, Pages> kept_;  // of what was removed and comes again
  std::array<Region*, 4096> recent_{};
};

Regions& regions() {
  static auto* all = new Regions;
  return *all;
}

std::string accesses(How how, size_t n) {
  const std::string bytes = std::to_string(n) + (n == 1 ? " byte" : " bytes");
  return (how == How::read ? "reads " : how == How::write ? "writes " : "changes ") + bytes;
}

// the nearest memory says what was meant
[[noreturn]] void out_of_bounds(uintptr_t a, size_t n, How how) {
  const std::string what = accesses(how, n) + " outside of its memory";
  Region *below = regions().below(a), *above = regions().above(a);
  const size_t past = below ? a - below->begin : SIZE_MAX,
               ahead = above ? above->begin - a : SIZE_MAX;
  if (below && past <= below->bytes + kPage && past - below->bytes <= ahead)
    fault(what + ": at byte " + std::to_string(past) + " of " + below->name + ", which has " +
          std::to_string(below->bytes));
  if (above && ahead <= kPage)
    fault(what + ": " + std::to_string(ahead) + " bytes before " + above->name);
  fault(what + ": at an address that is not the device's");
}

// shared memory is found as it is used: a static of a device function
Region& shared_at(uintptr_t a, size_t n, How how) {
  const Symbol* symbol = symbol_at(a);
  if (!symbol || symbol->function || variable_name(*symbol).starts_with("emulated_guard_"))
    out_of_bounds(a, n, how);
  Region& region = regions().add({.begin = symbol->begin,
                                  .bytes = symbol->bytes,
                                  .name = "shared memory '" + variable_name(*symbol) + "'",
                                  .shared = true});
  if (!region.has(a, n)) out_of_bounds(a, n, how);
  return region;
}

void begin_shared(Region& region) {
  if (region.launch != running.launch) use_shared(region.bytes);
  region.launch = running.launch;
  region.block_serial = running.block_serial;
  region.pages.clear();
  fill_unwritten(region.begin, region.bytes);
}

[[noreturn]] void never_written(const Region& region, uintptr_t a, size_t n) {
  fault(accesses(How::read, n) + " that were never written: at byte " +
        std::to_string(a - region.begin) + " of " + region.name);
}

void expect_written(const Region& region, uintptr_t a, size_t n) {
  uint32_t word;
  const auto is_unwritten = [&](uintptr_t place) {
    if (!region.has(place, 4)) return false;
    std::memcpy(&word, reinterpret_cast<const void*>(place), 4);
    return word == kUnwritten;
  };
  if (n == 2 && a % 2 == 0) {
    uint16_t half;
    std::memcpy(&half, reinterpret_cast<const void*>(a), 2);
    if (half == uint16_t(kUnwritten)) never_written(region, a, n);
    return;
  }
  for (uintptr_t place = a & ~uintptr_t(3); place < a + n; place += 4)
    if (is_unwritten(place)) never_written(region, a, n);
}

[[noreturn]] void unordered(const Region& region, size_t offset, size_t n, How how, Stamp other,
                            const char* did) {
  const std::string what =
      accesses(how, n) + " at byte " + std::to_string(offset) + " of " + region.name + ", which ";
  if (other.of_this_launch())
    fault(what + named_thread(other.thread()) + " " + did +
          ", with nothing between that orders the two");
  if (running.early)
    fault(what + named_work(other.launch()) + " " + did +
          ", before it waits in wait_for_earlier()");
  fault(what + named_work(other.launch()) + " on another stream " + did +
        ", with no event or synchronisation between");
}

void note(const Region& region, size_t offset, size_t n, Page& page, size_t i, How how) {
  Cell& cell = page.cells[i];
  const size_t begin = i * page.width, end = begin + page.width;
  const bool atomics =
      how == How::atomic && cell.write.any() && cell.write.atomic() && cell.write.of_this_launch();
  if (cell.write.any() && !atomics && !cell.write.before_now())
    unordered(region, offset, n, how, cell.write, "writes");
  if (how == How::read) {
    const bool beside = cell.read.any() && !cell.read.before_now();
    const bool joins = beside && cell.read.of_this_launch();
    if (beside && !joins) {
      if (cell.other.any() && !cell.other.before_now())
        page.reads.push_back({cell.other, begin, end});
      cell.other = cell.read;
    }
    cell.read = joins ? cell.read.with_now(false) : Stamp(Stamp::one, false);
    return;
  }
  for (const Stamp read : {cell.read, cell.other})
    if (read.any() && !read.before_now()) unordered(region, offset, n, how, read, "reads");
  for (const PageRead& read : page.reads)
    if (read.begin < end && begin < read.end)
      unordered(region, offset, n, how, read.stamp, "reads");
  const bool joins = atomics && !cell.write.before_now();
  cell.write = joins ? cell.write.with_now(true) : Stamp(Stamp::one, how == How::atomic);
  cell.read = cell.other = {};
}

// offset, not address: a page is of 1 KiB of its region
void note_all(Region& region, size_t offset, size_t n, How how) {
  if (region.pages.empty()) region.pages.resize((region.bytes + kPage - 1) / kPage);
  for (size_t at = offset; at < offset + n;) {
    auto& page = region.pages[at / kPage];
    if (!page) page = std::make_unique<Page>();
    const size_t in = at % kPage, part = std::min(offset + n - at, kPage - in);
    const bool whole = in == 0 && part == std::min(kPage, region.bytes - at);
    // the last page may end in the middle of a cell
    const size_t wanted = whole ? kPage : (in | part) & 3 ? 1 : 4;
    if (wanted < page->width) page->split(wanted);
    if (!page->reads.empty()) page->forget_reads();
    const size_t width = page->width, end = (in + part + width - 1) / width;
    for (size_t i = in / width; i < end; ++i) note(region, offset, n, *page, i, how);
    if (whole && how != How::read) page->join();
    at += part;
  }
}

void check(uintptr_t a, size_t n, How how, size_t alignment) {
  // what is called from here is the host's
  const size_t stack_bytes = std::exchange(running.stack_bytes, SIZE_MAX);
  Region* found = regions().find(a, n);
  if (!found) {
    const Section section = section_of(a);
    if (section != Section::constant || how != How::read) {
      if (section != Section::variable) out_of_bounds(a, n, how);
      found = &shared_at(a, n, how);
    }
  }
  // a device stops where a pointer is not what its type says
  if (a % alignment != 0)
    fault(accesses(how, n) + " at an address that is no multiple of " + std::to_string(alignment));
  if (found) {
    if (found->shared && found->block_serial != running.block_serial) begin_shared(*found);
    if (how != How::write) expect_written(*found, a, n);
    note_all(*found, a - found->begin, n, how);
  }
  running.stack_bytes = stack_bytes;
}

inline void access(const void* place, size_t n, How how, size_t alignment = 1) {
  const auto a = reinterpret_cast<uintptr_t>(place);
  if (a - running.stack >= running.stack_bytes) check(a, n, how, alignment);
}

// shared memory whose size a launch says
std::vector<std::byte> dynamic_memory;
std::byte* dynamic = nullptr;
constexpr size_t kGuard = 64;

}  // namespace

bool checks_memory() {
#ifdef MAGLEV_EMULATION_CHECKS_MEMORY
  return true;
#else
  return false;
#endif
}

void add_memory(void* begin, size_t bytes, const std::string& name) {
  const std::lock_guard lock(mutex);
  const auto a = reinterpret_cast<uintptr_t>(begin);
  if (checks_memory()) fill_unwritten(a, bytes);
  regions().add({.begin = a, .bytes = bytes, .name = name});
}

void remove_memory(void* begin, bool kept) {
  const std::lock_guard lock(mutex);
  regions().remove(reinterpret_cast<uintptr_t>(begin), kept);
}

void forget_accesses() { regions().forget_accesses(); }

void touch(const void* memory, size_t bytes, bool write) {
  if (!checks_memory() || bytes == 0) return;
  const auto a = reinterpret_cast<uintptr_t>(memory);
  const How how = write ? How::write : How::read;
  // the host's own memory is none of the device's
  Region* region = regions().below(a);
  if (!region || a >= region->begin + region->bytes) return;
  if (!region->has(a, bytes)) out_of_bounds(a, bytes, how);
  note_all(*region, a - region->begin, bytes, how);
}

void begin_dynamic_shared(size_t bytes) {
  if (dynamic) regions().remove(reinterpret_cast<uintptr_t>(dynamic), false);
  dynamic = nullptr;
  if (bytes == 0) return;
  use_shared(bytes);
  dynamic_memory.assign(bytes + 2 * kGuard, {});
  const auto first = reinterpret_cast<uintptr_t>(dynamic_memory.data());
  dynamic = reinterpret_cast<std::byte*>((first + kGuard - 1) / kGuard * kGuard);
  regions().add({.begin = reinterpret_cast<uintptr_t>(dynamic),
                 .bytes = bytes,
                 .name = "dynamic shared memory",
                 .shared = true,
                 .launch = running.launch});
}

void* dynamic_shared() { return dynamic; }

std::recursive_mutex& device_mutex() { return mutex; }

}  // namespace maglev::emulation

void emulated_atomic(const void* place, size_t bytes) {
  using namespace maglev::emulation;
  access(place, bytes, How::atomic);
}

#ifdef MAGLEV_EMULATION_CHECKS_MEMORY
// what -fsanitize=thread calls, answered by the device instead of the sanitizer's library
extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

#define MAGLEV_ANSWER(kind, name, bytes)                                      \
  void __tsan_##kind##bytes(const void* p) {                                  \
    maglev::emulation::access(p, bytes, maglev::emulation::How::name, bytes); \
  }                                                                           \
  void __tsan_unaligned_##kind##bytes(const void* p) {                        \
    maglev::emulation::access(p, bytes, maglev::emulation::How::name);        \
  }
MAGLEV_ANSWER(read, read, 1)
MAGLEV_ANSWER(read, read, 2)
MAGLEV_ANSWER(read, read, 4)
MAGLEV_ANSWER(read, read, 8)
MAGLEV_ANSWER(read, read, 16)
MAGLEV_ANSWER(write, write, 1)
MAGLEV_ANSWER(write, write, 2)
MAGLEV_ANSWER(write, write, 4)
MAGLEV_ANSWER(write, write, 8)
MAGLEV_ANSWER(write, write, 16)
#undef MAGLEV_ANSWER

void __tsan_read_range(const void* p, size_t bytes) {
  maglev::emulation::access(p, bytes, maglev::emulation::How::read);
}
void __tsan_write_range(const void* p, size_t bytes) {
  maglev::emulation::access(p, bytes, maglev::emulation::How::write);
}

// what a launch reads of the host's
char __tsan_atomic8_load(const volatile void* p, int) {
  return __atomic_load_n(static_cast<const volatile char*>(p), __ATOMIC_SEQ_CST);
}

// the linker sends this library's calls here
void* __real_memcpy(void* to, const void* from, size_t bytes);
void* __real_memset(void* to, int value, size_t bytes);
void* __wrap_memcpy(void* to, const void* from, size_t bytes) {
  if (bytes > 0) __tsan_read_range(from, bytes), __tsan_write_range(to, bytes);
  return __real_memcpy(to, from, bytes);
}
void* __wrap_memset(void* to, int value, size_t bytes) {
  if (bytes > 0) __tsan_write_range(to, bytes);
  return __real_memset(to, value, bytes);
}
}
#endif
