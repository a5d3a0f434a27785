// The few functions of NVML and ROCm SMI that the engine asks, of a machine with one NVIDIA GPU and
// two from AMD: what tests open in the drivers' place. Set MAGLEV_FAKE_GPUS=broken and neither
// starts.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

constexpr unsigned long long kGiB = 1ULL << 30;
int device;

int started() {
  const char* state = std::getenv("MAGLEV_FAKE_GPUS");
  return state && std::strcmp(state, "broken") == 0 ? 9 : 0;
}

int tell(char* to, size_t bytes, const char* text) {
  if (std::strlen(text) + 1 > bytes) return 7;
  std::strcpy(to, text);
  return 0;
}

}  // namespace

extern "C" {

int nvmlInit_v2() { return started(); }
int nvmlShutdown() { return 0; }
int nvmlSystemGetDriverVersion(char* text, unsigned bytes) { return tell(text, bytes, "550.54"); }
int nvmlDeviceGetCount_v2(unsigned* count) { return *count = 1, 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  if (index != 0) return 2;
  *handle = &device;
  return 0;
}
int nvmlDeviceGetName(void* handle, char* text, unsigned bytes) {
  return handle == &device ? tell(text, bytes, "Fake H100") : 2;
}
int nvmlDeviceGetMemoryInfo(void* handle, unsigned long long memory[3]) {
  if (handle != &device) return 2;
  memory[0] = 80 * kGiB, memory[1] = 70 * kGiB, memory[2] = 10 * kGiB;
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  *major = 9, *minor = 0;
  return 0;
}
int nvmlDeviceGetUtilizationRates(void*, unsigned use[2]) { return use[0] = 97, use[1] = 3, 0; }
int nvmlDeviceGetCurrPcieLinkWidth(void*, unsigned* lanes) { return *lanes = 4, 0; }
int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* lanes) { return *lanes = 16, 0; }

int rsmi_init(uint64_t) { return started(); }
int rsmi_shut_down() { return 0; }
int rsmi_version_str_get(int, char* text, uint32_t bytes) { return tell(text, bytes, "6.3.6"); }
int rsmi_num_monitor_devices(uint32_t* count) { return *count = 2, 0; }
int rsmi_dev_name_get(uint32_t index, char* text, size_t bytes) {
  return tell(text, bytes, index == 0 ? "Fake MI300X" : "Fake MI210");
}
int rsmi_dev_memory_total_get(uint32_t index, int, uint64_t* bytes) {
  return *bytes = (index == 0 ? 192 : 64) * kGiB, 0;
}
// no rsmi_dev_busy_percent_get: a library may lack what a newer one has
int rsmi_dev_memory_usage_get(uint32_t, int, uint64_t* bytes) { return *bytes = 4 * kGiB, 0; }
}
