#pragma once
// What torch's allocator of a device held as it last refused memory: by the time the error is
// caught, what was being computed has given its own back.

#include <cstdint>
#include <optional>
#include <string>

namespace maglev {

struct Refusal {
  int64_t asked = 0;            ///< bytes, rounded up as the allocator asks the device
  int64_t in_use = 0;           ///< by tensors
  int64_t reserved = 0;         ///< that and what was kept for later
  int64_t total = 0, free = 0;  ///< of the device
  /// All blocks, as torch.cuda.memory._snapshot has them, pickled: pytorch.org/memory_viz reads it.
  std::string blocks;
};

/// From here on refusals of this process are kept, and none is known. Nothing in builds without
/// device code.
void keep_refusals();
/// What is known was overcome, or is of a run that ended.
void forget_refusal();
/// The last one; none: nothing was refused.
std::optional<Refusal> last_refusal();

}  // namespace maglev
