#include "engine/play/env_room.h"

#include <algorithm>
#include <limits>

#include "base/core/error.h"
#include "base/core/printed.h"
#include "engine/host/system.h"

namespace maglev {

void expect_env_room(const EnvEntry& entry, const void* params, int64_t N, at::Device device) {
  // less is never asked about
  constexpr double kMuch = double(1 << 30);
  if (device.is_cuda()) return;
  const EnvSpec spec = entry.spec(params);
  double each = double(entry.slot_bytes(params)) + double(entry.held_bytes(params));
  for (const auto& column : spec.observations)
    each += double(spec.agents) * double(column.row_bytes());
  // as a real number, for it may be more than any integer
  const double bytes = double(N) * each;
  if (bytes < kMuch) return;
  const int64_t there = probe_system(".").memory.most();
  if (there == 0 || bytes <= double(there)) return;
  constexpr double kMost = double(std::numeric_limits<int64_t>::max() / 2);
  throw Error("[env] " + by_thousands(N) + " environments at once take " +
              bytes_text(int64_t(std::min(bytes, kMost))) + ", and " + bytes_text(there) +
              " of memory are there; take fewer");
}

}  // namespace maglev
