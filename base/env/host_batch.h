#pragma once
// Environments of one entry in host memory with all they stand on, for who plays, tests or measures
// them without tensors.

#include <cstddef>
#include <memory>
#include <vector>

#include "base/env/entry.h"

namespace maglev {

/// Live states of a host-only environment; null for any other.
using LiveStates = std::unique_ptr<void, void (*)(void*)>;
LiveStates make_live_states(const EnvEntry& entry, int64_t count);

class HostBatch {
 public:
  /// `params` is entry.params_bytes of settings, checked and copied. Throws Error on settings that
  /// contradict, or when assets cannot be made.
  HostBatch(const EnvEntry& entry, const void* params, int64_t count, uint64_t seed,
            int64_t first_env = 0);
  HostBatch(const HostBatch&) = delete;
  HostBatch& operator=(const HostBatch&) = delete;

  const EnvEntry& entry() const { return *entry_; }
  const EnvBatch& batch() const { return batch_; }
  int64_t count() const { return count_; }

  /// All slots with their states, and back. Throws Error when a state is none of the environment's.
  std::vector<std::byte> save() const;
  void load(const std::vector<std::byte>& slots);

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };

  const EnvEntry* entry_;
  int64_t count_;
  std::vector<Line> params_, assets_, slots_;
  LiveStates states_;
  EnvBatch batch_;
};

/// Throws Error: the state that was read for environment `i` is none of `entry`'s.
[[noreturn]] void refuse_state(const EnvEntry& entry, int64_t i);

}  // namespace maglev
