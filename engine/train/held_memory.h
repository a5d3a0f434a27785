#pragma once
// What of a run's plan of memory came true: the tensors it holds by part, as they are, and what one
// that ran out of memory says of itself.

#include <cstdint>
#include <string>
#include <vector>

#include <c10/util/Exception.h>

#include "engine/train/memory_plan.h"
#include "engine/train/trainer.h"

namespace maglev {

/// Bytes of tensors on the run's device.
struct HeldMemory {
  int64_t environments = 0;  ///< their states and assets
  int64_t collected = 0;     ///< columns of the rollout or the replay's ring
  int64_t state = 0;  ///< what checkpoints keep of the algorithm: parameters, moments, targets
  /// All: on a GPU the most at a time, on a processor what its allocator keeps.
  int64_t tensors = 0;
  int64_t process = 0;  ///< of the process itself, mapped files left out
  bool pinned = false;  ///< what is collected lies in pinned memory of the host instead

  /// What is none of the parts: activations, gradients, batches, workspaces.
  int64_t rest() const;
  /// By the names people are told.
  std::vector<MemoryPart> parts() const;
};

/// `tensors`: all of them. Visits the algorithm's state, so between iterations only.
HeldMemory held_memory(Trainer& trainer, int64_t tensors, int64_t process);

/// "tensors 15 MiB of 14 MiB planned: environments 1 MiB of 1 MiB, ...", for people.
std::string held_text(const HeldMemory& held, const MemoryPlan& plan);
/// The plan's file with what was measured in it.
std::string json_with(const MemoryPlan& plan, const HeldMemory& held);

/// What a run that `error` ended for want of memory says: what was asked for, what holds how much
/// and which settings take less.
std::string out_of_memory_text(const c10::Error& error, const HeldMemory& held,
                               const Experiment& experiment, const Placement& placement);
/// Writes blocks of a device (refusal.h) into a run's folder and says so, as what follows the text
/// above; empty: there are none, or they could not be written.
std::string keep_blocks(const std::string& blocks, const std::string& folder);

}  // namespace maglev
