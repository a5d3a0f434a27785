// The few functions of NVML and ROCm SMI that the engine asks, of a machine with one NVIDIA GPU and
// two from AMD: what tests open in the drivers' place. MAGLEV_FAKE_GPUS says what is wrong with
// them: broken (neither starts), silent (no figure of a device is told), uncounted (NVML keeps
// neither samples nor energy, and the device has no counters), nonsense (figures that cannot be),
// instances (the NVIDIA GPU is cut into some), parts (AMD's two are parts of one).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

constexpr unsigned long long kGiB = 1ULL << 30;
int device;

// since the library was started: samples of use made, energy taken
unsigned long long samples_made, millijoules, microjoules;

bool state_is(const char* name) {
  const char* state = std::getenv("MAGLEV_FAKE_GPUS");
  return state && std::strcmp(state, name) == 0;
}

int started() {
  if (state_is("broken")) return 9;
  samples_made = 0, millijoules = microjoules = 1'000'000'000;
  return 0;
}

// a figure of a device, or what stands where none can be
template <class Number>
int figure(Number* to, Number value, Number nonsense) {
  *to = state_is("nonsense") ? nonsense : value;
  return state_is("silent") ? 3 : 0;
}

// a look at the counters
struct Look {
  int number;
};
int looks_made, looks_open, nvml_users;

struct Support {
  unsigned version, supported;
};
struct Metric {
  unsigned id;
  int error;
  double value;
  char* names[3];
};
struct Metrics {
  unsigned version, count;
  Look *from, *to;
  Metric metrics[333];
};

struct Sample {
  unsigned long long time;
  unsigned value, rest;
};

int tell(char* to, size_t bytes, const char* text) {
  if (std::strlen(text) + 1 > bytes) return 7;
  std::strcpy(to, text);
  return 0;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  const int error = started();
  nvml_users += error == 0;
  return error;
}
int nvmlShutdown() {
  // what was allocated is to be freed before
  if (--nvml_users == 0 && looks_open > 0) std::abort();
  return 0;
}
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
  memory[0] = 80 * kGiB, memory[1] = 70 * kGiB;
  return figure(&memory[2], 10 * kGiB, 1000 * kGiB);
}
int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  *major = 9, *minor = 0;
  return 0;
}
int nvmlDeviceGetUtilizationRates(void*, unsigned use[2]) {
  use[1] = 3;
  return figure(&use[0], 97u, 255u);
}
int nvmlDeviceGetCurrPcieLinkWidth(void*, unsigned* lanes) { return *lanes = 4, 0; }
int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* lanes) { return *lanes = 16, 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** handle) {
  // or the one of tests/emulation
  if (std::strcmp(address, "0000:17:00.0") != 0 && std::strcmp(address, "ffff:ff:1f.0") != 0)
    return 6;
  *handle = &device;
  return 0;
}
int nvmlDeviceGetMigMode(void*, unsigned* now, unsigned* later) {
  *now = *later = state_is("instances");
  return 0;
}
// four more each time, the first four of a busy device, others of one that rests now and then; the
// last two of before are told again
int nvmlDeviceGetSamples(void*, int kind, unsigned long long, int* type, unsigned* count,
                         Sample* samples) {
  if (kind != 1 || state_is("silent") || state_is("uncounted")) return 6;
  *type = 1, *count = 8;
  if (!samples) return 0;
  const unsigned long long first = samples_made - std::min(samples_made, 2ull);
  samples_made += 4;
  for (*count = 0; first + *count < samples_made; ++*count) {
    const unsigned long long number = first + *count;
    samples[*count] = {number + 1, number < 4 ? 100u : number % 2 ? 30u : 10u, 0};
    if (state_is("nonsense")) samples[*count].value = 255;
  }
  return 0;
}
int nvmlGpmQueryDeviceSupport(void* handle, Support* support) {
  if (handle != &device || support->version != 1) return 2;
  support->supported = !state_is("uncounted");
  return 0;
}
int nvmlGpmSampleAlloc(Look** look) { return *look = new Look, ++looks_open, 0; }
int nvmlGpmSampleFree(Look* look) { return delete look, --looks_open, 0; }
int nvmlGpmSampleGet(void* handle, Look* look) {
  if (handle != &device || state_is("silent")) return 3;
  return look->number = ++looks_made, 0;
}
// each more by as much for each look between the two
int nvmlGpmMetricsGet(Metrics* asked) {
  if (asked->version != 1) return 2;
  const double between = asked->to->number - asked->from->number;
  for (Metric* metric = asked->metrics; metric < asked->metrics + asked->count; ++metric) {
    const double percent = metric->id == 2 ? 10 : metric->id == 5 ? 30 : metric->id == 10 ? 50 : -1;
    metric->error = percent < 0 ? 2 : 0;
    metric->value = state_is("nonsense") ? 120 : percent * between;
  }
  return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void*, unsigned long long* energy) {
  if (state_is("uncounted")) return 3;
  millijoules += 30'000;
  return figure(energy, millijoules, 2'000'000'000 - millijoules);
}
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  return figure(milliwatts, 212'500u, ~0u);
}
int nvmlDeviceGetTemperature(void*, int, unsigned* celsius) { return figure(celsius, 61u, ~0u); }
int nvmlDeviceGetClockInfo(void*, int clock, unsigned* mhz) {
  return clock == 1 ? figure(mhz, 1410u, 0u) : 2;
}

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
int rsmi_dev_pci_id_get(uint32_t index, uint64_t* place) {
  const uint64_t bus = state_is("parts") || index == 0 ? 0x23 : 0x43;
  *place = uint64_t(index) << 28 | bus << 8;
  return 0;
}
int rsmi_dev_energy_count_get(uint32_t, uint64_t* count, float* resolution, uint64_t* time) {
  microjoules += 2'000'000, *count = microjoules / 2, *time = 0;
  return figure(resolution, 2.f, -2.f);
}
int rsmi_dev_power_ave_get(uint32_t, uint32_t, uint64_t* microwatts) {
  return figure(microwatts, uint64_t(301'000'000), uint64_t(-5));
}
// the second has no sensor at its edge
int rsmi_dev_temp_metric_get(uint32_t index, uint32_t sensor, int, int64_t* millidegrees) {
  if (index == 1 && sensor == 0) return 2;
  return figure(millidegrees, int64_t(index == 0 ? 52'000 : 71'000), int64_t(-273'150));
}
}
