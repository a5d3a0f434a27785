#include "engine/host/machine.h"

#include <algorithm>
#include <cstdlib>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/cuda.h>

#include "base/config/choice.h"
#include "base/config/options.h"
#include "base/core/error.h"
#include "base/core/split.h"
#include "base/core/thread_pool.h"
#include "engine/device/device.h"
#include "engine/host/cpu_cache.h"

namespace maglev {

namespace {

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

at::Device choose_device(const std::string& name, const SeenDevices& seen, std::string& why) {
  if (name == "auto") {
    if (seen.cuda > 0 && seen.device_code) {
      why = "a CUDA device is here and this build has device code";
      return {at::kCUDA, 0};
    }
    why = seen.cuda == 0 ? "no CUDA device is visible to torch" : "this build has no device code";
    return at::kCPU;
  }
  const auto unknown = [&] {
    return Error("[device] must be auto, cpu, cuda or cuda:<index>, got '" + name + "'" +
                 (name == "mps" ? "; nothing here runs on Apple's GPUs, device=cpu does" : ""));
  };
  at::Device device(at::kCPU);
  try {
    device = at::Device(name);
  } catch (const c10::Error&) {
    throw unknown();
  }
  why = "asked for";
  if (device.is_cpu()) return device;
  if (!device.is_cuda()) throw unknown();
  if (!device.has_index()) device = at::Device(at::kCUDA, 0);
  const std::string asked = "[device] " + name + " was asked for, but ";
  if (seen.cuda == 0) throw Error(asked + "torch sees no CUDA device; use device=cpu");
  if (!seen.device_code)
    throw Error(asked + "this build has no device code; build with nvcc beside a CUDA torch");
  if (device.index() >= seen.cuda)
    throw Error(asked + "torch sees " +
                (seen.cuda == 1 ? "one CUDA device, cuda:0"
                                : std::to_string(seen.cuda) + " CUDA devices, cuda:0 to cuda:" +
                                      std::to_string(seen.cuda - 1)) +
                "; choose one of these (CUDA_VISIBLE_DEVICES hides devices and numbers the rest)");
  return device;
}

SeenDevices seen_devices() {
  return {.cuda = int(torch::cuda::device_count()), .device_code = kDeviceCode};
}

Placement part_of(const Placement& whole, const std::string& device, int64_t processes,
                  const SeenDevices& seen) {
  Placement part = whole;
  part.processes = processes;
  if (processes == 1) return part;
  part.threads = std::max(1, int(whole.threads / processes));
  if (!whole.device.is_cuda() || whole.device_bytes > 0) return part;
  if (device.find(':') != std::string::npos)
    throw Error("[processes] each process has a GPU of its own, and device=" + device +
                " is one; use device=cuda (CUDA_VISIBLE_DEVICES chooses which)");
  if (processes > seen.cuda)
    throw Error("[processes] each process has a GPU of its own, and torch sees " +
                std::to_string(seen.cuda) + "; use processes=" + std::to_string(seen.cuda) +
                " or fewer");
  return part;
}

std::optional<int64_t> take_threads(std::vector<std::string>& settings) {
  std::optional<int64_t> given;
  for (const std::string& setting : settings) {
    if (name_part(setting) != "threads") continue;
    OptionTable table;
    table.add("threads", given.emplace(), "threads; 0: as many as the process may use",
              {.min = 0, .max = 1024});
    table.override_with(setting);
  }
  std::erase_if(settings, [](const auto& s) { return name_part(s) == "threads"; });
  return given;
}

Placement place(const std::string& device, int64_t threads, std::optional<Precision> precision) {
  Placement p{.device = at::kCPU, .threads = int(threads)};
  if (threads == 0) {
    p.threads = usable_cpus();
    p.threads_why = "what this process may use";
  } else {
    p.threads_why = "asked for";
  }
  p.device = choose_device(device, seen_devices(), p.device_why);
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
  // fp32 is fp32 until a run asks for less: torch begins with convolutions in TF32
  at::globalContext().setAllowTF32CuDNN(false);
  at::globalContext().setAllowTF32CuBLAS(false);
}

}  // namespace maglev
