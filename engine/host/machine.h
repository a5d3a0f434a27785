#pragma once
// Which device and how many threads a run uses, and why.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "engine/device/precision.h"
#include "engine/group/group.h"

namespace maglev {

class ProcessGroup;

struct Placement {
  at::Device device;
  int threads;
  std::string device_why, threads_why;
  Precision precision = Precision::fp32;
  std::string precision_why = "";
  /// Memory of a device that is planned for without being there; 0: the device is asked.
  int64_t device_bytes = 0;
  /// Processes that share the run, this one's part of which this is; who they are, and by what the
  /// first tells the others what comes next: null where there is one, or nobody trains.
  int64_t processes = 1;
  int64_t machines = 1;  ///< on which they lie, as many on each
  Group* group = nullptr;
  ProcessGroup* orders = nullptr;

  /// Processes of the run on this machine.
  int64_t here() const { return processes / machines; }
  /// What one process does by itself here, such as an evaluation.
  Placement alone() const {
    Placement placement = *this;
    placement.processes = placement.machines = 1;
    placement.group = nullptr;
    placement.orders = nullptr;
    return placement;
  }
};

/// What there is to choose from: torch's CUDA devices, and whether this build has kernels for them.
struct SeenDevices {
  int cuda = 0;
  bool device_code = false;
};
/// The device `name` means: auto, cpu, cuda or cuda:<index>. Throws Error where it is not there.
at::Device choose_device(const std::string& name, const SeenDevices& seen, std::string& why);

/// `device`: auto, cpu, cuda or cuda:<index>; `threads`: 0 = as many as this process may use.
/// `precision`: none is auto, and fp32 here: what is fastest on a GPU takes a
/// measurement of the update itself (settle_precision). Throws Error when a device was asked for
/// that is not there, or a precision it does not compute. A CUDA device becomes this thread's own:
/// launches, streams and memory are of it from here on.
Placement place(const std::string& device, int64_t threads,
                std::optional<Precision> precision = {});

/// Takes threads=N out of name=value `settings`: N, 0 as many as this process may use; none: it is
/// not there. Throws Error.
std::optional<int64_t> take_threads(std::vector<std::string>& settings);

/// The part of `whole` that the first of `processes` processes of this machine has: a share of its
/// threads, and where each has a GPU the first one. Throws Error where these are too few, or
/// `device` asked for one by its index.
Placement part_of(const Placement& whole, const std::string& device, int64_t processes,
                  const SeenDevices& seen);
/// What is here.
SeenDevices seen_devices();

/// Threads of ours do the work: ATen itself runs every operation on the thread that calls it; its
/// memory comes from a cache on the host and in expandable segments on a GPU (unless the user's
/// PYTORCH_ALLOC_CONF says something else), and fp32 is computed in fp32 there (torch begins with
/// TF32 for convolutions). Call once, first.
void claim_threads();

}  // namespace maglev
