#pragma once
#include <c10/core/Device.h>

#include <cuda_runtime.h>

namespace c10::cuda {

inline DeviceIndex current_device() { return 0; }

/// What becomes of an operation that waits for the device.
enum class SyncDebugMode { L_DISABLED, L_WARN, L_ERROR };
class WarningState {
 public:
  void set_sync_debug_mode(SyncDebugMode mode) { mode_ = mode; }
  SyncDebugMode get_sync_debug_mode() const { return mode_; }

 private:
  SyncDebugMode mode_ = SyncDebugMode::L_DISABLED;
};
WarningState& warning_state();

}  // namespace c10::cuda
