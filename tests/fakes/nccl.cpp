// The few functions of NCCL that the engine calls, between processes that each have an emulated
// device: what tests open in its place. They meet in shared memory, and add in order of rank. As
// with NCCL, what goes wrong between them is told by ncclCommGetAsyncError alone, nothing is
// exchanged while a graph is captured, and a communicator does not go before its graphs: NCCL waits
// for those without end, this one aborts and says so.
//
// A process that does not come within MAGLEV_FAKE_NCCL_TIMEOUT_S seconds (600) counts as gone.
// MAGLEV_FAKE_NCCL_VERSION: what ncclGetVersion tells.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <unistd.h>

#include <sys/mman.h>

#include "base/core/bfloat16.h"
#include "base/core/clock.h"
#include "tests/emulation/capture.h"
#include "tests/emulation/running.h"

namespace {

using namespace maglev;

enum Result { success = 0, system_error = 2, invalid_argument = 4, invalid_usage = 5, gone = 6 };
enum Type { bytes_type = 0, f32 = 7, f64 = 8, bf16 = 9 };

constexpr int kMostRanks = 8;
constexpr size_t kSlotBytes = size_t(1) << 20;
constexpr const char* kName = "/maglev-fake-nccl-";

struct Id {
  char name[128];
};

// what a process was asked for: all have to be asked for the same
struct Asked {
  int operation, type;
  size_t count;
  bool operator==(const Asked&) const = default;
};

// begins as zeros
struct Shared {
  std::atomic<int> size;
  std::atomic<unsigned> ranks;  // that have come, a bit each
  std::atomic<uint64_t> arrivals;
  std::atomic<bool> broken;
  Asked asked[kMostRanks];
  alignas(64) std::byte slot[kMostRanks][kSlotBytes];
};

double number_in(const char* variable, double otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::atof(text) : otherwise;
}

size_t bytes_of(int type) { return type == f64 ? 8 : type == f32 ? 4 : type == bf16 ? 2 : 1; }

float widened(uint16_t bits) {
  const uint32_t wide = uint32_t(bits) << 16;
  float x;
  std::memcpy(&x, &wide, sizeof x);
  return x;
}

class Communicator {
 public:
  Communicator(Shared* shared, int rank, int size) : shared_(shared), rank_(rank), size_(size) {}
  // the others wait for it no more
  ~Communicator() {
    shared_->broken = true;
    ::munmap(shared_, sizeof(Shared));
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int size() const { return size_; }
  int error() const { return error_; }

  Result join() {
    int nobody = 0;
    if (!shared_->size.compare_exchange_strong(nobody, size_) && nobody != size_)
      return invalid_argument;
    if (shared_->ranks.fetch_or(1u << rank_) >> rank_ & 1) return invalid_argument;
    meet();
    return error_;
  }
  void sum(void* values, size_t count, int type) {
    auto* to = static_cast<std::byte*>(values);
    exchange({1, type, count}, to, [&](size_t first, size_t bytes) {
      if (type == f32) add<float>(to + first, bytes);
      else if (type == f64) add<double>(to + first, bytes);
      else add_bf16(to + first, bytes);
    });
  }
  void gather(const void* own, void* all, size_t count, int type) {
    auto* to = static_cast<std::byte*>(all);
    exchange({2, type, count}, own, [&](size_t first, size_t bytes) {
      for (int r = 0; r < size_; ++r)
        std::memcpy(to + size_t(r) * count * bytes_of(type) + first, shared_->slot[r], bytes);
    });
  }

 private:
  bool fail(Result why) {
    error_ = why;
    shared_->broken = true;
    return false;
  }
  // until all have come here
  bool meet() {
    const uint64_t all = ++meetings_ * uint64_t(size_);
    ++shared_->arrivals;
    const double until = steady_s() + number_in("MAGLEV_FAKE_NCCL_TIMEOUT_S", 600);
    while (shared_->arrivals < all) {
      // whoever left behind this place has come to it
      if (shared_->broken || steady_s() > until) return shared_->arrivals >= all || fail(gone);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return true;
  }
  // as much at once as a slot holds; behind an error nothing more is exchanged
  template <class Take>
  void exchange(const Asked& asked, const void* from, const Take& take) {
    if (error_) return;
    shared_->asked[rank_] = asked;
    if (!meet()) return;
    for (int r = 0; r < size_; ++r)
      if (!(shared_->asked[r] == asked)) return void(fail(invalid_usage));
    const size_t bytes = asked.count * bytes_of(asked.type);
    for (size_t first = 0; first < bytes; first += kSlotBytes) {
      const size_t some = std::min(bytes - first, kSlotBytes);
      std::memcpy(shared_->slot[rank_], static_cast<const std::byte*>(from) + first, some);
      if (!meet()) return;
      take(first, some);
      if (!meet()) return;
    }
  }
  template <class Number>
  void add(std::byte* to, size_t bytes) const {
    for (size_t i = 0; i < bytes; i += sizeof(Number)) {
      Number sum = 0;
      for (int r = 0; r < size_; ++r) {
        Number x;
        std::memcpy(&x, shared_->slot[r] + i, sizeof x);
        sum = r == 0 ? x : sum + x;
      }
      std::memcpy(to + i, &sum, sizeof sum);
    }
  }
  void add_bf16(std::byte* to, size_t bytes) const {
    for (size_t i = 0; i < bytes; i += 2) {
      float sum = 0;
      for (int r = 0; r < size_; ++r) {
        uint16_t x;
        std::memcpy(&x, shared_->slot[r] + i, sizeof x);
        sum = r == 0 ? widened(x) : sum + widened(x);
      }
      const uint16_t rounded = bfloat16_bits(sum);
      std::memcpy(to + i, &rounded, sizeof rounded);
    }
  }

  Shared* shared_;
  int rank_, size_;
  uint64_t meetings_ = 0;
  Result error_ = success;
};
// graphs hold it, too
using Handle = std::shared_ptr<Communicator>;

struct Memory {
  const void* from;
  size_t from_bytes;
  void* to;
  size_t to_bytes;
};

// `work` for the stream, in order with what else is given to it; `without` in its place while the
// stream is captured, for what it writes counts as written
void enqueue(const char* name, EmulatedStream* stream, const Memory& memory,
             const std::function<void()>& work, const std::function<void()>& without) {
  const auto begin = [=](EmulatedStream* on) {
    const std::lock_guard lock(emulation::device_mutex());
    emulation::begin_host_copy(name);
    emulation::begin_work(on);
    emulation::touch(memory.from, memory.from_bytes, false);
    emulation::touch(memory.to, memory.to_bytes, true);
  };
  emulation::expect_given_here(stream, name);
  begin(stream);
  if (emulation::captured(stream)) without();
  else work();
  emulation::keep(stream, [=](EmulatedStream* on) {
    begin(on);
    work();
  });
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  *version = int(number_in("MAGLEV_FAKE_NCCL_VERSION", 22703));
  return success;
}

const char* ncclGetErrorString(int result) {
  switch (result) {
    case success:
      return "no error";
    case system_error:
      return "no shared memory";
    case invalid_argument:
      return "invalid argument";
    case invalid_usage:
      return "the processes were asked for different things";
    default:
      return "another process is gone, or did not come in time";
  }
}

int ncclGetUniqueId(Id* id) {
  static std::atomic<int> made = 0;
  std::snprintf(id->name, sizeof id->name, "%s%d-%d", kName, int(::getpid()), ++made);
  return success;
}

int ncclCommInitRank(Handle** communicator, int size, Id id, int rank) {
  id.name[sizeof id.name - 1] = 0;
  if (std::strncmp(id.name, kName, std::strlen(kName)) != 0 || size > kMostRanks || rank < 0 ||
      rank >= size)
    return invalid_argument;
  const int file = ::shm_open(id.name, O_CREAT | O_RDWR, 0600);
  if (file < 0 || ::ftruncate(file, sizeof(Shared)) != 0) return system_error;
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED) return system_error;
  const auto made = std::make_shared<Communicator>(static_cast<Shared*>(memory), rank, size);
  const Result result = made->join();
  // all that come have it open, or never will
  ::shm_unlink(id.name);
  if (result == success) *communicator = new Handle(made);
  return result;
}

int ncclCommAbort(Handle* communicator) {
  if (communicator->use_count() > 1) {
    std::fprintf(stderr,
                 "ncclCommAbort: a graph that holds work of it is still there, and NCCL "
                 "would wait for its end\n");
    std::abort();
  }
  delete communicator;
  return success;
}

int ncclCommGetAsyncError(Handle* communicator, int* result) {
  *result = (*communicator)->error();
  return success;
}

int ncclAllReduce(const void* from, void* to, size_t count, int type, int operation,
                  Handle* communicator, EmulatedStream* stream) {
  const bool adds = type == f32 || type == f64 || type == bf16;
  if (operation != 0 || !adds || from != to) return invalid_argument;
  if (count == 0) return success;
  const size_t bytes = count * bytes_of(type);
  enqueue(
      "ncclAllReduce", stream, {from, bytes, to, bytes},
      [=, group = *communicator] { group->sum(to, count, type); }, [] {});
  return success;
}

int ncclAllGather(const void* from, void* to, size_t count, int type, Handle* communicator,
                  EmulatedStream* stream) {
  if (type != bytes_type) return invalid_argument;
  if (count == 0) return success;
  const size_t size = size_t((*communicator)->size());
  enqueue(
      "ncclAllGather", stream, {from, count, to, size * count},
      [=, group = *communicator] { group->gather(from, to, count, type); },
      [=] {
        for (size_t r = 0; r < size; ++r)
          std::memcpy(static_cast<std::byte*>(to) + r * count, from, count);
      });
  return success;
}
}
