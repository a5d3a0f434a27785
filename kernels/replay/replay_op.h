#pragma once
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/core/thread_pool.h"
#include "kernels/replay/replay.h"

namespace maglev {

struct EpisodeIndexSize {
  int64_t slots = 0, rows = 0;
  int64_t length = 1;     ///< L
  bool by_start = false;  ///< see EpisodeTable
  bool running = false;
  bool crossing = false;
  bool prioritised = false;  ///< instead of by_start and running, with or without crossing
};

/// An EpisodeTable with its arrays on one device. On CUDA every call only enqueues, but for
/// rebuild() and counters().
class EpisodeIndex {
 public:
  EpisodeIndex(const EpisodeIndexSize& size, at::Device device);

  const EpisodeTable& table() const { return table_; }
  /// As of now. Waits for the device.
  EpisodeCounters counters() const;
  /// The same where they are, i64 [9]; for a copy that nobody waits for.
  at::Tensor counters_on_device() const;
  /// The counters and all arrays behind them but the weights, i64.
  const at::Tensor& memory() const { return memory_; }
  /// What starts weigh, [slots, rows] i32 in the ring's order; undefined unless prioritised.
  const at::Tensor& weights() const { return weights_; }
  /// The table of a ring that holds times [oldest, now]. Starts that can be drawn weigh what
  /// weights() says, or where that is 0 `largest`, the largest weight so far; 0: it stays what it is.
  ///   is_first, terminated, truncated [slots, rows] u8 of the ring, in any memory
  void rebuild(const at::Tensor& is_first, const at::Tensor& terminated,
               const at::Tensor& truncated, int64_t oldest, int64_t now, int64_t largest = 0);
  /// See episodes_reserve_cpu and episodes_append_cpu.
  void reserve(int64_t steps);
  void append(const EpisodeFlags& flags, int64_t steps);

 private:
  EpisodeTable table_;
  at::Device device_;
  /// Counters, episodes, begun, oldest, newest, open, starts and sums behind each other, i64.
  at::Tensor memory_;
  at::Tensor weights_;
};

/// Draws and gathers a batch, in shares of the pool's threads on CPU. `args` as ReplaySample says,
/// its table of `index`. Fails an assertion on CPU when a slice is not contiguous.
void replay_sample(const ReplaySample& args, at::Device device, ThreadPool& pool);

/// What an update wrote in its batch, back into the ring.
void replay_put_back(const ReplayPutBack& args, at::Device device);

/// What an update says of how much is to be learned from its slices.
void replay_prioritise(const ReplayPriorities& args, at::Device device);

/// Staged steps into the ring, on CUDA only.
void replay_write(const ReplayWrite& args, at::Device device);

}  // namespace maglev
