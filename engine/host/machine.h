#pragma once
// Which device and how many threads a run uses, and why.

#include <optional>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "engine/device/precision.h"

namespace maglev {

struct Placement {
  at::Device device;
  int threads;
  std::string device_why, threads_why;
  Precision precision = Precision::fp32;
  std::string precision_why = "";
};

/// `device`: auto, cpu, cuda or cuda:<index>; `threads`: 0 = as many as this process may use.
/// `precision`: none is auto, and fp32 here: what is fastest on a GPU takes a
/// measurement of the update itself (measured_precision). Throws Error when a device was asked for
/// that is not there, or a precision it does not compute.
Placement place(const std::string& device, int64_t threads,
                std::optional<Precision> precision = {});

/// Threads of ours do the work: ATen itself runs every operation on the thread that calls it; its
/// memory comes from a cache on the host and in expandable segments on a GPU (unless the user's
/// PYTORCH_ALLOC_CONF says something else). Call once, first.
void claim_threads();

}  // namespace maglev
