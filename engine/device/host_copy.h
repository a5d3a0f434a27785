#pragma once
// Small device buffers brought to the host without waiting: gathered into one buffer on the device,
// then one asynchronous copy into pinned memory behind which an event stands.

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

namespace maglev {

class DeviceEvent;

class HostCopy {
 public:
  explicit HostCopy(at::Device device);
  ~HostCopy();
  HostCopy(const HostCopy&) = delete;
  HostCopy& operator=(const HostCopy&) = delete;

  /// Enqueues the copy of `parts` (contiguous, on the device; the same shapes each time) and
  /// returns. What is done to them afterwards does not show in it. wait() comes before the next
  /// start().
  void start(const std::vector<at::Tensor>& parts);
  /// Whether wait() would return at once.
  bool ready() const;
  /// Waits for the copy; part `i` on the host, valid until the next start().
  void wait();
  template <class T>
  const T* part(size_t i) const {
    return reinterpret_cast<const T*>(at(i));
  }

 private:
  const std::byte* at(size_t i) const;

  at::Device device_;
  std::unique_ptr<DeviceEvent> event_;  ///< null on CPU
  at::Tensor gathered_, host_;          ///< [bytes] u8
  std::vector<int64_t> begin_;          ///< of each part, a multiple of 16
};

}  // namespace maglev
