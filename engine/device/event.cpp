#include "engine/device/event.h"

#include <mutex>

#include "engine/device/device.h"
#ifdef MAGLEV_DEVICE_CODE
#include <cuda_runtime_api.h>
#endif

namespace maglev {
namespace {

// cudaErrorNotReady
constexpr int kNotReady = 600;

}  // namespace

bool has_passed(int error, int (*forget)(), const char* what) {
  if (error == kNotReady) {
    forget();
    return false;
  }
  check_cuda(error, what);
  return true;
}

#ifdef MAGLEV_DEVICE_CODE
namespace {

static_assert(kNotReady == cudaErrorNotReady);

cudaEvent_t cuda_event(void* event) { return static_cast<cudaEvent_t>(event); }

int forget_last_error() { return cudaGetLastError(); }

}  // namespace

std::optional<bool> stream_is_busy(void* stream) {
  const std::unique_lock lock(capture_mutex(), std::try_to_lock);
  if (!lock.owns_lock()) return std::nullopt;
  return !has_passed(cudaStreamQuery(static_cast<cudaStream_t>(stream)), forget_last_error,
                     "device");
}

DeviceEvent::DeviceEvent(bool timed) {
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming),
             "event");
  event_ = event;
}

DeviceEvent::~DeviceEvent() { cudaEventDestroy(cuda_event(event_)); }

void DeviceEvent::record() {
  auto* stream = static_cast<cudaStream_t>(current_stream());
  check_cuda(cudaEventRecordWithFlags(
                 cuda_event(event_), stream,
                 stream_is_captured() ? cudaEventRecordExternal : cudaEventRecordDefault),
             "event");
}

bool DeviceEvent::passed() const {
  return has_passed(cudaEventQuery(cuda_event(event_)), forget_last_error, "event");
}

void DeviceEvent::wait() const { check_cuda(cudaEventSynchronize(cuda_event(event_)), "event"); }

std::optional<double> DeviceEvent::seconds_since(const DeviceEvent& earlier) const {
  float milliseconds = 0;
  const int error =
      cudaEventElapsedTime(&milliseconds, cuda_event(earlier.event_), cuda_event(event_));
  // a replay that has begun records the earlier one first, and before the first one neither is
  if (error != cudaSuccess) forget_last_error();
  if (error != cudaSuccess || milliseconds < 0) return std::nullopt;
  return 1e-3 * double(milliseconds);
}

#else

std::optional<bool> stream_is_busy(void*) { return std::nullopt; }

DeviceEvent::DeviceEvent(bool) {}
DeviceEvent::~DeviceEvent() = default;
void DeviceEvent::record() {}
bool DeviceEvent::passed() const { return true; }
void DeviceEvent::wait() const {}
std::optional<double> DeviceEvent::seconds_since(const DeviceEvent&) const { return std::nullopt; }

#endif

}  // namespace maglev
