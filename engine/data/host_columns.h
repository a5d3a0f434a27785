#pragma once
// The columns of a step in host memory beside those on a device, for environments that only the
// host steps. They come in blocks of rows that travel by themselves.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/env/entry.h"

namespace maglev {

class HostColumns {
 public:
  /// What a step leaves: observations, masks and first flags; with them rewards and ends.
  enum class Part { observed, all };

  /// For `rows` rows in the columns of a StepIo of `spec` on `device`, `block_rows` a block, of which
  /// the last may have fewer, and `rivals` in its rivals', all in the only block.
  HostColumns(const EnvSpec& spec, int64_t rows, int64_t block_rows, int64_t rivals,
              at::Device device);
  /// Waits for what send() enqueued: the host's memory is given back, and torch does not know who
  /// reads it.
  ~HostColumns();
  HostColumns(const HostColumns&) = delete;
  HostColumns& operator=(const HostColumns&) = delete;

  /// `io`, whose columns are on the device, with host memory for each that it has of this block's
  /// rows, at the rows' own numbers. What send() enqueued before may still read it. Valid until the
  /// block is asked for again.
  const StepIo& of(const StepIo& io, int64_t block);
  /// The same once the actions have come down: waits for all that the device was given before.
  const StepIo& bring_actions(const StepIo& io, int64_t block);
  /// What was written in host memory goes to `io`'s columns: one transfer, then copies on the
  /// device. Enqueues only; host memory may be written again after the block's next bring_actions.
  void send(const StepIo& io, int64_t block, Part part);

 private:
  /// A column of either group: where its rows of the block lie, and their bytes.
  struct Column {
    int64_t begin = 0, bytes = 0;
    int64_t before = 0;  ///< bytes of the rows before these in a whole column
  };
  struct Group {
    Column obs[kMaxObsColumns], mask, is_first, reward, terminated, truncated, action;
  };
  struct Block {
    Group learners, rivals;
    int64_t begin = 0, observed_bytes = 0, all_bytes = 0;  ///< that go up, from `begin` on
    StepIo io;
  };

  StepColumns on_host(const Group& group, const StepColumns& device) const;
  void send(const Group& group, const StepColumns& device, Part part) const;

  size_t obs_count_;
  std::vector<Block> blocks_;
  bool pageable_;      ///< the host memory is
  at::Tensor host_;    ///< [bytes] u8, pinned where the device is CUDA
  at::Tensor device_;  ///< [bytes that go up] u8
};

}  // namespace maglev
