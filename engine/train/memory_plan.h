#pragma once
// How much memory a run will take, from its settings alone, so that one that cannot fit is refused
// before its first step and not after an hour.

#include <string>
#include <vector>

#include "engine/algo/algorithm.h"
#include "engine/algo/experiment.h"
#include "engine/host/machine.h"

namespace maglev {

struct MemoryPlan {
  std::vector<MemoryPart> parts;  ///< where the run's tensors lie, largest first
  int64_t pinned = 0;             ///< bytes of host memory besides, for a device to read
  int64_t host_left = 0;          ///< that may be pinned; 0: unknown, the device need not be here
  int64_t disk = 0;               ///< bytes of a file in train.replay_folder
  int64_t processes = 1;          ///< each of which holds as much
  /// Of `parts`: environments with what they share; columns of the rollout or the replay's ring;
  /// what no tensor is, views of rows, memory that processes share and that of other programs.
  int64_t environments = 0, collected = 0, beside = 0;
  int64_t programs = 0;   ///< of `beside` what other programs hold, not this process
  int64_t limit = 0;      ///< bytes that `parts` may take; 0: no limit
  std::string limit_why;  ///< e.g. "free on cuda:0"

  int64_t total() const;
  int64_t tensors() const { return total() - beside; }
  /// What learns: networks, optimisers, activations, batches, others that act.
  int64_t learning() const { return tensors() - environments - collected; }
  bool parts_fit() const { return limit == 0 || total() <= limit; }
  bool pinned_fits() const { return host_left == 0 || pinned <= host_left; }
  bool fits() const { return parts_fit() && pinned_fits(); }
  /// "1.2 GiB planned: replay 0.9 GiB, parameters 12 MiB, ...".
  std::string text() const;
  std::string json() const;
};

/// Bytes of "512MiB", "4 GiB", "1.5G" or "2e9". Throws Error.
int64_t parse_bytes(const std::string& text);

/// What `experiment` will hold at its peak where `placement` puts it: environments, rollout or
/// replay, and what the algorithm says. The process itself and its libraries are left out.
MemoryPlan plan_memory(const Experiment& experiment, const Placement& placement);

/// Bytes that the cache of tensors is held to while the run lasts, for limit_cpu_cache: what
/// train.memory_limit names, but for what is no tensor. 0, no limit, unless it names a size and the
/// run is on a processor.
int64_t tensor_limit(const MemoryPlan& plan, const Experiment& experiment,
                     const Placement& placement);

/// What would take less of the memory where a run's tensors lie.
struct Saving {
  std::string setting;  ///< its name, with a value where only one takes less
  std::string how;      ///< in words, where the run stays the same; else empty
};
/// Without settings that change nothing in such a run. `pinned`: what is collected lies in pinned
/// memory of the host already.
std::vector<Saving> savings(const Experiment& experiment, const Placement& placement, bool pinned);

/// The plan, held to train.memory_limit. Where it does not fit: with train.shrink_replay a smaller
/// train.replay_capacity is written into `experiment` and `note` says so, unless that is null; else
/// throws Error that says what takes how much.
MemoryPlan fit_memory(Experiment& experiment, const Placement& placement, std::string* note);

}  // namespace maglev
