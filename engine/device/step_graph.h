#pragma once
// One stage of the iteration as a unit that is run again and again over the same buffers: a plain
// call, or on CUDA one captured graph that is replayed. A stage keeps addresses and shapes fixed
// and reads nothing back; what counts does so on the device, for a replay runs no host code.

#include <functional>
#include <memory>
#include <string>

#include <c10/core/Device.h>

namespace maglev {

/// What a capture is made of.
struct CaptureCalls {
  std::function<void()> begin;  ///< from here on memory comes from the pool, and work into a graph
  std::function<void()> end;    ///< makes the graph of it
  /// What `end` left undone where it failed: memory comes from the pool no more.
  std::function<void()> leave_pool;
  std::function<void()> forget_error;  ///< that the runtime keeps
};
/// Captures what `stage` enqueues. Whatever fails, the stream has left the capture and the
/// allocator the pool when this throws Error "[graph] <name>: ..." of what failed first.
void capture_with(const CaptureCalls& calls, const std::string& name,
                  const std::function<void()>& stage);

/// The device memory and the side stream that some graphs share. They are replayed in the order
/// they were captured, or keep nothing of what they allocate, so that one may use what the other
/// has given back. A trainer's keep nothing: its two kinds of updates alternate, so whatever
/// outlives an update lies in buffers that were there before.
class GraphPool {
 public:
  explicit GraphPool(at::Device device);
  ~GraphPool();
  GraphPool(const GraphPool&) = delete;
  GraphPool& operator=(const GraphPool&) = delete;

  /// Runs `work` with the side stream as the current one, ordered behind what the current stream
  /// was given before and before what it is given after. On CPU a plain call. Not within another.
  void on_side_stream(const std::function<void()>& work);
  /// The two halves of it: what the current stream is given before join() goes on beside `work`.
  void fork(const std::function<void()>& work);
  void join();
  /// As join(), on the way out of something that failed since fork().
  void abandon() noexcept;
  /// Whether there is a device to capture on.
  bool captures() const { return device_ != nullptr; }

 private:
  friend class StepGraph;
  struct Device;
  std::unique_ptr<Device> device_;  ///< null on CPU
};

class StepGraph {
 public:
  /// `name`: what errors call the stage; `phases`: what of an iteration a replay stands for in a
  /// trace, by commas, static text.
  explicit StepGraph(std::string name, const char* phases = "other");
  ~StepGraph();
  StepGraph(StepGraph&&) noexcept;
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  /// Replays what was captured, on the current stream; before a capture, calls `stage`.
  void run(const std::function<void()>& stage);
  /// Captures what `stage` enqueues; nothing of it happens on the device. Call it on the pool's
  /// side stream, after eager runs there have set up libraries. Throws Error when something in the
  /// stage cannot be captured; run() then goes on calling it.
  void capture(GraphPool& pool, const std::function<void()>& stage);
  /// Forgets the capture: run() calls the stage again.
  void reset();
  bool captured() const { return graph_ != nullptr; }

 private:
  struct Graph;
  std::string name_;
  const char* phases_;
  std::unique_ptr<Graph> graph_;
};

}  // namespace maglev
