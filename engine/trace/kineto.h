#pragma once
// Torch's profiler, Kineto, of all threads and of the device: what trace.mode=full records beside
// our spans. It is no public interface of torch, so this is the one file that knows it.

#include <memory>
#include <string>

namespace maglev {

/// What it tells of operations besides their times.
struct KinetoDetail {
  bool shapes = false;  ///< of inputs, with their types
  bool memory = false;  ///< what is taken and given back; of the thread that begins alone, and then
                        ///< so are operations
};

class Kineto {
 public:
  /// Records nothing for a moment, before the first graph is captured, for it must be loaded before
  /// the device's driver is asked for a graph. Throws Error where this build of torch has none.
  Kineto(bool with_device, KinetoDetail detail);
  ~Kineto() { cancel(); }
  Kineto(const Kineto&) = delete;
  Kineto& operator=(const Kineto&) = delete;

  /// Begins to record. Throws Error where another profiler of this process does.
  void start();
  /// Ends, on the thread that began, and writes Chrome JSON to `path`. Throws Error.
  void stop(const std::string& path);
  /// Ends without a file, where it had begun.
  void cancel();

 private:
  bool with_device_, started_ = false;
  KinetoDetail detail_;
};

}  // namespace maglev
