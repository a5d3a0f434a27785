#pragma once
// GPUs that a run can be planned for without one of them being there.

#include <cstdint>
#include <span>

namespace maglev::verbs::plan {

struct NamedDevice {
  const char* name;
  int64_t bytes;  ///< of its memory, as nvidia-smi shows it
};

/// Each once.
std::span<const NamedDevice> named_devices();

}  // namespace maglev::verbs::plan
