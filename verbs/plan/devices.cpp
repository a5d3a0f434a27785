#include "verbs/plan/devices.h"

namespace maglev::verbs::plan {

std::span<const NamedDevice> named_devices() {
  constexpr int64_t kMiB = 1 << 20;
  static constexpr NamedDevice kDevices[] = {
      {"t4", 15'360 * kMiB},       {"v100", 32'768 * kMiB},    {"l4", 23'034 * kMiB},
      {"rtx3090", 24'576 * kMiB},  {"rtx4090", 24'564 * kMiB}, {"rtx5090", 32'607 * kMiB},
      {"a100-40g", 40'960 * kMiB}, {"l40s", 46'068 * kMiB},    {"a100", 81'920 * kMiB},
      {"h100", 81'559 * kMiB},     {"h200", 143'771 * kMiB},   {"b200", 183'359 * kMiB},
  };
  return kDevices;
}

}  // namespace maglev::verbs::plan
