#pragma once
// The one place that asks a device for its stream and reads its errors; the same calls in builds
// without device code.

#include <cstdint>
#include <mutex>
#include <string>

namespace maglev {

/// Whether kernels for CUDA were linked in.
#ifdef MAGLEV_DEVICE_CODE
constexpr bool kDeviceCode = true;
#else
constexpr bool kDeviceCode = false;
#endif

/// Makes CUDA device `index` the one of this thread: launches, streams and memory are its own from
/// here on. Nothing in builds without device code.
void use_device(int index);
/// The current cudaStream_t; null in builds without device code.
void* current_stream();
/// 10 * major + minor of CUDA device `index`; 0 in builds without device code.
int compute_capability(int index);
/// Where CUDA device `index` is on the machine's bus, e.g. "0000:17:00.0", by which drivers'
/// libraries know it, too; empty in builds without device code and where it is not told.
std::string bus_address(int index);
/// What torch's allocator holds of the current device's memory, for tensors and for later ones.
struct DeviceMemory {
  int64_t in_use = 0, reserved = 0;  ///< bytes; 0 in builds without device code
  /// The most of both since the last reset_device_peak().
  int64_t peak_in_use = 0, peak_reserved = 0;
};
DeviceMemory device_memory();
void reset_device_peak();
/// Waits for the device and gives back what no tensor and no graph holds. Never within a capture of
/// this thread; waits for one of another, which a wait for the whole device would break.
void release_device_memory();
/// Held while a thread captures; recursive, so that what must not be done within a capture is
/// refused by the device and does not wait for itself.
std::recursive_mutex& capture_mutex();
/// Bytes free on the current device, those that the allocator keeps for later ones among them; 0 in
/// builds without device code.
int64_t free_device_bytes();
/// Enqueues a copy between host (pinned) and device memory, or within one, on the current stream.
/// In builds without device code a plain copy.
void copy_on_stream(void* to, const void* from, int64_t bytes);
/// Whether the current stream is being captured: nothing it is given happens now. False in builds
/// without device code.
bool stream_is_captured();
/// Waits until the current stream has done what it was given.
void wait_for_stream();
/// Throws Error when a launch returned a cudaError_t other than success.
void check_cuda(int error, const char* what);

}  // namespace maglev
