#pragma once
// GPUs that a run can be planned for without one of them being there.

#include <cstdint>
#include <span>

namespace maglev::verbs::plan {

/// As their maker publishes them; of several forms the one for servers (SXM).
struct NamedDevice {
  const char* name;
  int64_t bytes;       ///< of its memory, as nvidia-smi shows it
  double fp32_tflops;  ///< 10^12 operations a second, without tensor cores
  double half_tflops;  ///< of dense products in bf16, or fp16 where it has no bf16
  double gigabytes_s;  ///< of its memory, 10^9 bytes a second
};

/// Each once.
std::span<const NamedDevice> named_devices();

}  // namespace maglev::verbs::plan
