#pragma once
// The columns of a step in host memory beside those on a device, for environments that only the
// host steps.

#include <cstddef>
#include <cstdint>

#include <ATen/core/Tensor.h>

#include "base/env/entry.h"

namespace maglev {

class HostColumns {
 public:
  /// What a step leaves: observations, masks and first flags; with them rewards and ends.
  enum class Part { observed, all };

  /// For `rows` rows in the columns of a StepIo of `spec` on `device`, and `rivals` in its rivals'.
  HostColumns(const EnvSpec& spec, int64_t rows, int64_t rivals, at::Device device);
  /// Waits for what send() enqueued: the host's memory is given back, and torch does not know who
  /// reads it.
  ~HostColumns();
  HostColumns(const HostColumns&) = delete;
  HostColumns& operator=(const HostColumns&) = delete;

  /// `io`, whose columns are on the device, with host memory for each that it has. What send()
  /// enqueued before may still read it.
  const StepIo& of(const StepIo& io);
  /// The same once the actions have come down: waits for all that the device was given before.
  const StepIo& bring_actions(const StepIo& io);
  /// What was written in host memory goes to `io`'s columns: one transfer, then copies on the
  /// device. Enqueues only; host memory may be written again after the next bring_actions.
  void send(const StepIo& io, Part part);

 private:
  /// A column of either group: where it lies in the block, and its bytes.
  struct Column {
    int64_t begin = 0, bytes = 0;
  };
  struct Group {
    Column obs[kMaxObsColumns], mask, is_first, reward, terminated, truncated, action;
  };

  StepColumns on_host(const Group& group, const StepColumns& device) const;
  void send(const Group& group, const StepColumns& device, Part part) const;
  std::byte* host(const Column& column) const;

  size_t obs_count_;
  Group learners_, rivals_;
  int64_t observed_bytes_ = 0, all_bytes_ = 0;  ///< that go up: of the block's beginning
  bool pageable_;                               ///< the host memory is
  at::Tensor host_;                             ///< [bytes] u8, pinned where the device is CUDA
  at::Tensor device_;                           ///< [all_bytes] u8
  StepIo io_;
};

}  // namespace maglev
