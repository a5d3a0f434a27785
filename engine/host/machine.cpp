#include "engine/host/machine.h"

#include <algorithm>
#include <cstdlib>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/cuda.h>

#include "base/config/choice.h"
#include "base/core/error.h"
#include "base/core/thread_pool.h"
#include "engine/device/device.h"
#include "engine/host/cpu_cache.h"

namespace maglev {

namespace {

void place_device(Placement& p, const std::string& device) {
  const bool cuda = torch::cuda::is_available();
  if (device == "auto") {
    if (cuda && kDeviceCode) {
      p.device = at::Device(at::kCUDA, 0);
      p.device_why = "a CUDA device is here and this build has device code";
    } else {
      p.device_why = !cuda ? "no CUDA device is visible to torch" : "this build has no device code";
    }
    return;
  }
  try {
    p.device = at::Device(device);
  } catch (const c10::Error&) {
    throw Error("[device] must be auto, cpu, cuda or cuda:<index>, got '" + device + "'");
  }
  p.device_why = "asked for";
  if (p.device.is_cpu()) return;
  if (!p.device.is_cuda())
    throw Error("[device] must be auto, cpu, cuda or cuda:<index>, got '" + device + "'");
  if (!p.device.has_index()) p.device = at::Device(at::kCUDA, 0);
  if (!cuda)
    throw Error("[device] " + device +
                " was asked for, but torch sees no CUDA device; use device=cpu");
  if (!kDeviceCode)
    throw Error(
        "[device] " + device +
        " was asked for, but this build has no device code; build with nvcc beside a CUDA torch");
  if (p.device.index() >= int(torch::cuda::device_count()))
    throw Error("[device] " + device + " was asked for, but torch sees " +
                std::to_string(torch::cuda::device_count()) + " CUDA device(s)");
}

void place_precision(Placement& p, std::optional<Precision> precision) {
  if (!precision) {
    p.precision_why = p.device.is_cuda() ? "unless a measurement before training finds a faster one"
                                         : "bf16 rounds, and is for those who ask for it";
    return;
  }
  p.precision = *precision;
  p.precision_why = "asked for";
  const auto there = precisions_of(p.device);
  if (std::find(there.begin(), there.end(), p.precision) != there.end()) return;
  std::string names;
  for (Precision one : there) names += (names.empty() ? "" : ", ") + std::string(name_of(one));
  throw Error("[train] train.precision=" + std::string(name_of(*precision)) + " is not what " +
              p.device.str() + " computes; it has " + names);
}

}  // namespace

Placement place(const std::string& device, int64_t threads, std::optional<Precision> precision) {
  Placement p{.device = at::kCPU, .threads = int(threads)};
  if (threads == 0) {
    p.threads = usable_cpus();
    p.threads_why = "what this process may use";
  } else {
    p.threads_why = "asked for";
  }
  place_device(p, device);
  if (p.device.is_cuda()) use_device(p.device.index());
  place_precision(p, precision);
  return p;
}

void claim_threads() {
  use_cpu_cache();
  // device memory grows by pages, so that no gap is too small; read at the first allocation
  if (!std::getenv("PYTORCH_CUDA_ALLOC_CONF"))
    setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True", /*overwrite=*/0);
  at::set_num_threads(1);
}

}  // namespace maglev
