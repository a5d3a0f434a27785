#pragma once
// A second stream of a device, for work that goes on beside what the current one is given.

#include <functional>
#include <memory>

#include <c10/core/Device.h>

namespace maglev {

/// On a processor, and in builds without device code, work is done when it is forked.
class SideStream {
 public:
  explicit SideStream(at::Device device);
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  /// Runs `work` with this stream as the current one: what it enqueues happens behind what the
  /// current stream was given so far, and beside what that is given until join(). Within a capture
  /// of the current stream it becomes part of the graph, and has to be joined before the capture
  /// ends.
  void fork(const std::function<void()>& work);
  /// What the current stream is given from now on happens behind what was forked since the last
  /// join; nothing where nothing was. In the capture that the fork was in.
  void join();
  /// As join(), where something has failed since the fork, as a capture may have: takes no notice of
  /// errors, and nothing is left to join.
  void abandon() noexcept;
  /// Waits until the device has done what this stream was given; what replays of graphs do on it is
  /// ordered by the stream that they run on alone. Never within a capture.
  void wait() const;

 private:
  struct Device;
  std::unique_ptr<Device> device_;  ///< null where there is none
};

}  // namespace maglev
