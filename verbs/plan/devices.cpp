#include "verbs/plan/devices.h"

namespace maglev::verbs::plan {

std::span<const NamedDevice> named_devices() {
  constexpr int64_t kMiB = 1 << 20;
  static constexpr NamedDevice kDevices[] = {
      {"t4", 15'360 * kMiB, 8.1, 65, 320},          {"v100", 32'768 * kMiB, 15.7, 125, 900},
      {"l4", 23'034 * kMiB, 30.3, 121, 300},        {"rtx2080ti", 11'264 * kMiB, 13.4, 54, 616},
      {"rtx3080", 10'240 * kMiB, 29.8, 60, 760},    {"rtx3090", 24'576 * kMiB, 35.6, 71, 936},
      {"a4000", 16'376 * kMiB, 19.2, 77, 448},      {"a6000", 49'140 * kMiB, 38.7, 155, 768},
      {"a10", 23'028 * kMiB, 31.2, 125, 600},       {"rtx4090", 24'564 * kMiB, 82.6, 165, 1008},
      {"rtx5090", 32'607 * kMiB, 104.8, 210, 1792}, {"a100-40g", 40'960 * kMiB, 19.5, 312, 1555},
      {"l40s", 46'068 * kMiB, 91.6, 362, 864},      {"a100", 81'920 * kMiB, 19.5, 312, 2039},
      {"h100", 81'559 * kMiB, 67, 989, 3350},       {"h200", 143'771 * kMiB, 67, 989, 4800},
      {"b200", 183'359 * kMiB, 75, 2250, 8000},
  };
  return kDevices;
}

}  // namespace maglev::verbs::plan
