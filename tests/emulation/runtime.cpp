// The runtime's calls: memory, streams and events. Work runs when it is enqueued; what a real
// device might do in another order is known from clocks, one number a stream (Lamport, "Time,
// clocks, and the ordering of events", 1978), and found where two pieces of work touch the same
// memory.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#include "base/core/clock.h"
#include "tests/emulation/capture.h"
#include "tests/emulation/running.h"

namespace maglev::emulation {
namespace {

/// How much of each stream's work is done, as somebody knows it.
using Clock = std::vector<uint64_t>;

void join(Clock& mine, const Clock& other) {
  mine.resize(std::max(mine.size(), other.size()));
  for (size_t i = 0; i < other.size(); ++i) mine[i] = std::max(mine[i], other[i]);
}

}  // namespace
}  // namespace maglev::emulation

struct EmulatedStream {
  size_t number = 0;
  bool waits_for_null = true;  // as all but cudaStreamNonBlocking
  uint64_t enqueued = 0;
  maglev::emulation::Clock clock = {};
  maglev::emulation::Clock ahead = {};  // what work next to begin early may read
};

struct EmulatedEvent {
  maglev::emulation::Clock clock;
  maglev::emulation::Clock ahead;  // what the last work before it had waited for
  double recorded_s = -1;          // of the host's clock; negative: never
  uint64_t capture = 0;            // that it was recorded in, as part of it; 0: none
};

namespace maglev::emulation {
namespace {

struct Work {
  size_t stream;
  uint64_t number;
  std::string name;
};

struct Streams {
  EmulatedStream null;
  std::vector<EmulatedStream*> all{&null};
  Clock host;              // what the host has waited for
  std::vector<Work> work;  // by launch number - 1
  Clock now;               // of the running work
  Clock early;             // of its threads that have not waited for the launch ahead

  EmulatedStream& of(cudaStream_t stream) { return stream ? *stream : null; }
};
Streams& streams() {
  static auto* one = new Streams;
  return *one;
}

constexpr size_t kGuard = 256;
// what the device says of itself
constexpr int kCapability[] = {9, 0};
constexpr size_t kMemory = size_t(16) << 30;

}  // namespace

bool comes_before(uint32_t number) {
  const Streams& s = streams();
  const Work& work = s.work[number - 1];
  const Clock& now = running.early ? s.early : s.now;
  return work.stream < now.size() && now[work.stream] >= work.number;
}

std::string named_work(uint32_t number) { return streams().work[number - 1].name; }

void begin_work(cudaStream_t on) {
  Streams& s = streams();
  if (s.work.size() == kMostLaunches) forget_accesses(), s.work.clear();
  EmulatedStream& stream = s.of(on);
  join(stream.clock, s.host);
  // the null stream waits for the others, and they for it
  for (EmulatedStream* other : s.all)
    if (other && (&stream == &s.null || other == &s.null) && stream.waits_for_null &&
        other->waits_for_null)
      join(stream.clock, other->clock);
  s.now = stream.clock;
  // the launch ahead lets this one come when it has waited itself
  s.early = stream.ahead;
  join(s.early, s.host);
  stream.ahead = s.now;
  stream.clock.resize(std::max(stream.clock.size(), s.all.size()));
  stream.clock[stream.number] = ++stream.enqueued;
  s.work.push_back({stream.number, stream.enqueued, named_work()});
  running.launch = uint32_t(s.work.size()), running.earlier = 0;
}

bool has_waited_for(cudaStream_t stream, cudaStream_t other) {
  const Clock& clock = streams().of(stream).clock;
  const EmulatedStream& before = streams().of(other);
  return before.enqueued == 0 ||
         (before.number < clock.size() && clock[before.number] >= before.enqueued);
}

namespace {

cudaError_t copy(void* to, const void* from, size_t bytes, cudaStream_t stream, const char* name) {
  give(stream, name, [=](cudaStream_t on) {
    const std::lock_guard lock(device_mutex());
    begin_host_copy(name);
    begin_work(on);
    touch(from, bytes, false);
    touch(to, bytes, true);
    std::memmove(to, from, bytes);
  });
  return cudaSuccess;
}

void wait(cudaStream_t on, cudaEvent_t event) {
  const std::lock_guard lock(device_mutex());
  EmulatedStream& stream = streams().of(on);
  join(stream.clock, event->clock), join(stream.ahead, event->ahead);
}

void record(cudaEvent_t event, cudaStream_t stream) {
  give(stream, "cudaEventRecord", [=](cudaStream_t on) {
    const std::lock_guard lock(device_mutex());
    event->clock = streams().of(on).clock, event->ahead = streams().of(on).ahead;
    event->recorded_s = steady_s();
  });
}

void wait_for(const Clock& clock) { join(streams().host, clock); }

}  // namespace
}  // namespace maglev::emulation

using namespace maglev::emulation;

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    default:
      return "invalid argument";
  }
}

// what is wrong is thrown
cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int) { return cudaSuccess; }

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = kCapability[attribute == cudaDevAttrComputeCapabilityMinor];
  return cudaSuccess;
}

// a place where no machine has a device
cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int) {
  std::snprintf(text, size_t(bytes), "ffff:ff:1f.0");
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = kMemory;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  expect_no_capture(nullptr, "cudaMalloc");
  const size_t whole = (bytes + kGuard - 1) / kGuard * kGuard;
  // with AddressSanitizer the end is its to watch
  auto* begin =
      static_cast<std::byte*>(checks_memory() ? std::aligned_alloc(kGuard, whole + 2 * kGuard)
                                              : std::malloc(bytes + kGuard));
  if (!begin) return cudaErrorMemoryAllocation;
  *memory = begin + kGuard;
  add_memory(*memory, bytes, "device memory of " + std::to_string(bytes) + " bytes");
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  if (!memory) return cudaSuccess;
  expect_no_capture(nullptr, "cudaFree");
  remove_memory(memory);
  std::free(static_cast<std::byte*>(memory) - kGuard);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  expect_no_capture(nullptr, "cudaMemcpy");
  copy(to, from, bytes, nullptr, "cudaMemcpy");
  return cudaStreamSynchronize(nullptr);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return copy(to, from, bytes, stream, "cudaMemcpyAsync");
}

cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  expect_no_capture(nullptr, "cudaMemset");
  const std::lock_guard lock(device_mutex());
  begin_host_copy("cudaMemset");
  begin_work(nullptr);
  touch(memory, bytes, true);
  std::memset(memory, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const std::lock_guard lock(device_mutex());
  Streams& s = streams();
  *stream = new EmulatedStream{.number = s.all.size(),
                               .waits_for_null = !(flags & cudaStreamNonBlocking)};
  s.all.push_back(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(device_mutex());
  // work of a stream that is gone counts as done
  cudaStreamSynchronize(stream);
  streams().all[stream->number] = nullptr;
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = captured(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  expect_no_capture(stream, "cudaStreamSynchronize");
  const std::lock_guard lock(device_mutex());
  wait_for(streams().of(stream).clock);
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  expect_no_capture(stream, "cudaStreamQuery");
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::lock_guard lock(device_mutex());
  // who waits for a point within a capture becomes part of it, and nothing within waits for one
  // outside
  if (captured(stream) && event->capture != capture_of(stream))
    refuse("cudaStreamWaitEvent within a capture for an event that was recorded outside of it");
  if (event->capture) join_capture(stream, event->capture);
  wait(stream, event);
  if (event->capture) keep(stream, [=](cudaStream_t on) { wait(on, event); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new EmulatedEvent;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  record(event, stream);
  event->capture = capture_of(stream);
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  record(event, stream);
  event->capture = flags & cudaEventRecordExternal ? 0 : capture_of(stream);
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t) {
  expect_no_capture(nullptr, "cudaEventQuery");
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  if (from->recorded_s < 0 || to->recorded_s < 0) return cudaErrorInvalidValue;
  *milliseconds = float(1e3 * (to->recorded_s - from->recorded_s));
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  expect_no_capture(nullptr, "cudaEventSynchronize");
  const std::lock_guard lock(device_mutex());
  wait_for(event->clock);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  expect_no_capture(nullptr, "cudaDeviceSynchronize");
  const std::lock_guard lock(device_mutex());
  for (const EmulatedStream* stream : streams().all)
    if (stream) wait_for(stream->clock);
  return cudaSuccess;
}
