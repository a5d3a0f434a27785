#pragma once
// Which device and how many threads a run uses, and why.

#include <string>
#include <vector>

#include <c10/core/Device.h>

namespace maglev {

struct Placement {
  at::Device device;
  int threads;
  std::string device_why, threads_why;
};

/// `device`: auto, cpu, cuda or cuda:<index>; `threads`: 0 = as many as this process may use.
/// Throws Error when a device was asked for that is not there.
Placement place(const std::string& device, int64_t threads);

/// Threads of ours do the work: ATen itself runs every operation on the thread that calls it. Call
/// once, first.
void claim_threads();

}  // namespace maglev
