#include "engine/algo/micro_batch.h"

#include <c10/util/Exception.h>

#include "engine/device/device.h"
#include "engine/device/launch.h"
#include "engine/host/cpu_cache.h"

namespace maglev {

void MicroBatch::run(const std::function<void(int64_t)>& learn) {
  for (;;) {
    try {
      return learn(rows_);
    } catch (const c10::OutOfMemoryError&) {
      if ((runs_on_cuda(device_) && stream_is_captured()) || !halve()) throw;
    }
    // behind the handler: what the error held on to is gone
    if (runs_on_cuda(device_)) release_device_memory();
    else release_cpu_cache();
  }
}

bool MicroBatch::halve() {
  if (halvings_ == kMostHalvings || rows_ == 1) return false;
  ++halvings_;
  rows_ = (rows_ + 1) / 2;
  return true;
}

std::string MicroBatch::note(int64_t rows) const {
  if (halvings_ == 0) return "";
  return "memory did not suffice for an update of " + std::to_string(first_) + " " + unit_ +
         " at once: from here on minibatches are learned from " + std::to_string(rows) + " " +
         unit_ + " at a time, which is the same step up to rounding";
}

}  // namespace maglev
