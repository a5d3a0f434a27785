#include "engine/host/gpus.h"

#include <cstddef>
#include <cstdlib>

#include "engine/host/gpu_library.h"

namespace maglev {
namespace {

constexpr unsigned kTextBytes = 128;

void add_nvidia(const OpenLibrary& nvml, std::vector<Gpu>& gpus) {
  if (!nvml.call("nvmlInit_v2")) return;
  char driver[kTextBytes] = "";
  nvml.call("nvmlSystemGetDriverVersion", &driver[0], kTextBytes);
  unsigned count = 0;
  nvml.call("nvmlDeviceGetCount_v2", &count);
  for (unsigned i = 0; i < count; ++i) {
    void* device = nullptr;
    if (!nvml.call("nvmlDeviceGetHandleByIndex_v2", i, &device)) continue;
    Gpu gpu{.name = "NVIDIA GPU", .driver = driver};
    char name[kTextBytes] = "";
    if (nvml.call("nvmlDeviceGetName", device, &name[0], kTextBytes)) gpu.name = name;
    NvmlMemory memory{};
    if (nvml.call("nvmlDeviceGetMemoryInfo", device, &memory)) {
      gpu.memory_total = int64_t(memory.total);
      gpu.memory_free = int64_t(memory.free);
    }
    int major = 0, minor = 0;
    if (nvml.call("nvmlDeviceGetCudaComputeCapability", device, &major, &minor))
      gpu.capability = std::to_string(major) + "." + std::to_string(minor);
    NvmlUse use{};
    if (nvml.call("nvmlDeviceGetUtilizationRates", device, &use)) gpu.busy = int(use.gpu);
    unsigned lanes = 0;
    if (nvml.call("nvmlDeviceGetCurrPcieLinkWidth", device, &lanes)) gpu.lanes = int(lanes);
    if (nvml.call("nvmlDeviceGetMaxPcieLinkWidth", device, &lanes)) gpu.lanes_at_most = int(lanes);
    gpus.push_back(std::move(gpu));
  }
  nvml.call("nvmlShutdown");
}

void add_amd(const OpenLibrary& rocm, std::vector<Gpu>& gpus) {
  if (!rocm.call("rsmi_init", uint64_t(0))) return;
  char driver[kTextBytes] = "";
  rocm.call("rsmi_version_str_get", kRocmDriver, &driver[0], uint32_t(kTextBytes));
  uint32_t count = 0;
  rocm.call("rsmi_num_monitor_devices", &count);
  for (uint32_t i = 0; i < count; ++i) {
    Gpu gpu{.name = "AMD GPU", .runs_cuda = false, .driver = driver};
    char name[kTextBytes] = "";
    if (rocm.call("rsmi_dev_name_get", i, &name[0], size_t(kTextBytes))) gpu.name = name;
    uint64_t total = 0, used = 0;
    if (rocm.call("rsmi_dev_memory_total_get", i, kRocmVideoMemory, &total)) {
      gpu.memory_total = int64_t(total);
      if (rocm.call("rsmi_dev_memory_usage_get", i, kRocmVideoMemory, &used))
        gpu.memory_free = int64_t(total - used);
    }
    uint32_t busy = 0;
    if (rocm.call("rsmi_dev_busy_percent_get", i, &busy)) gpu.busy = int(busy);
    gpus.push_back(std::move(gpu));
  }
  rocm.call("rsmi_shut_down");
}

std::string library_named(const char* variable, const char* usual) {
  const char* named = std::getenv(variable);
  return named ? named : usual;
}

}  // namespace

GpuLibraries gpu_libraries() {
  return {.nvml = library_named("MAGLEV_NVML", "libnvidia-ml.so.1"),
          .rocm_smi = library_named("MAGLEV_ROCM_SMI", "librocm_smi64.so")};
}

std::vector<Gpu> probe_gpus(const GpuLibraries& libraries) {
  std::vector<Gpu> gpus;
  add_nvidia(OpenLibrary(libraries.nvml), gpus);
  add_amd(OpenLibrary(libraries.rocm_smi), gpus);
  return gpus;
}

std::vector<std::string> precisions_of_capability(const std::string& capability) {
  const double number = std::atof(capability.c_str());
  if (number <= 0) return {};
  std::vector<std::string> names{"fp32"};
  if (number >= 8) names.insert(names.end(), {"tf32", "bf16"});
  if (number >= 7) names.push_back("fp16");
  if (number >= 8.9) names.push_back("fp8");
  return names;
}

}  // namespace maglev
