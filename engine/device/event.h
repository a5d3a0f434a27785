#pragma once
// A point in the work of a device's stream: whether it was passed, and how long behind another.

#include <optional>

namespace maglev {

/// Whether an event was passed, by the cudaError_t its query returned. That it was not is no error,
/// but the runtime keeps it as its last one, which the next launch would return: `forget`
/// (cudaGetLastError) takes it away. Throws Error on every other code.
bool has_passed(int error, int (*forget)(), const char* what);

/// Whether `stream`, of this thread's device, has work that is not done; any thread may ask. Nothing
/// where a thread captures, which a question may break, where one waits for the whole device
/// (release_device_memory) and in builds without device code. Throws Error where the device has
/// failed.
std::optional<bool> stream_is_busy(void* stream);

/// Does nothing in builds without device code, where every event was passed.
class DeviceEvent {
 public:
  /// `timed`: seconds_since may be asked.
  explicit DeviceEvent(bool timed = false);
  ~DeviceEvent();
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;

  /// Stands behind what the current stream was given so far. Within a capture it becomes part of
  /// the graph: every replay passes it anew.
  void record();
  /// Waits for nothing.
  bool passed() const;
  void wait() const;
  /// From `earlier` to this one; nothing where one was not passed, or a replay is between them.
  std::optional<double> seconds_since(const DeviceEvent& earlier) const;

 private:
  void* event_ = nullptr;  ///< a cudaEvent_t
};

}  // namespace maglev
