#pragma once
// Which GPUs the drivers of this machine know, by NVIDIA's NVML and AMD's ROCm SMI. Both libraries
// are opened at run time: a program that asks runs where neither is. No torch, and no CUDA context.

#include <cstdint>
#include <string>
#include <vector>

namespace maglev {

struct Gpu {
  std::string name;
  int64_t memory_total = 0, memory_free = 0;  ///< bytes; 0: unknown
  std::string capability;                     ///< of CUDA, e.g. "9.0"; empty: unknown, or no CUDA
  bool runs_cuda = true;                      ///< else another maker's
  std::string driver;                         ///< e.g. "550.54"; empty: unknown
  /// Share of the last moment in which something ran, in percent; -1: unknown. Full long before the
  /// device is: it says that others use it, not how well.
  int busy = -1;
  int lanes = 0, lanes_at_most = 0;  ///< of PCI Express, in use and possible; 0: unknown
};

/// Names or paths for the system's loader; "": not looked for.
struct GpuLibraries {
  std::string nvml, rocm_smi;
};

/// Where they are by default, or where MAGLEV_NVML and MAGLEV_ROCM_SMI say, set but empty: nowhere.
GpuLibraries gpu_libraries();

/// NVIDIA's first, then AMD's, each in its library's order. What a library lacks or does not tell
/// stays unknown; one that is not there, or does not start, has none. Throws nothing.
std::vector<Gpu> probe_gpus(const GpuLibraries& libraries);

/// What its tensor or matrix units compute, as names of train.precision and more, e.g.
/// {"fp32", "tf32", "bf16", "fp16"}; empty where the capability is unknown. Source: NVIDIA's table
/// of data types by compute capability.
std::vector<std::string> precisions_of_capability(const std::string& capability);

}  // namespace maglev
