#include "engine/algo/micro_batch.h"

#include "engine/device/device.h"
#include "engine/device/refusal.h"
#include "engine/host/cpu_cache.h"

namespace maglev {

bool is_out_of_memory(const c10::Error& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error)) return true;
  const std::string what = error.what_without_backtrace();
  for (const char* word :
       {"DefaultCPUAllocator", "_STATUS_ALLOC_FAILED", "CUDA error: out of memory"})
    if (what.find(word) != what.npos) return true;
  return false;
}

void MicroBatch::run(const std::function<void(int64_t)>& learn) {
  for (;;) {
    try {
      return learn(rows_);
    } catch (const c10::Error& error) {
      // the device is asked nothing where it may be broken
      if (!is_out_of_memory(error) || (device_.is_cuda() && stream_is_captured()) || !halve())
        throw;
    }
    // behind the handler: what the error held on to is gone
    if (device_.is_cuda()) release_device_memory(), forget_refusal();
    else release_cpu_cache();
  }
}

bool MicroBatch::halve() {
  if (halvings_ == kMostHalvings) return false;
  const int64_t half = (rows_ + 1) / 2, fitting = fit_ ? fit_(half) : half;
  // they are as few as can be
  if (fitting >= rows_) return false;
  ++halvings_;
  rows_ = fitting;
  return true;
}

std::string MicroBatch::note() const {
  if (halvings_ == 0) return "";
  return "memory did not suffice for an update of " + std::to_string(first_) + " " + unit_ +
         " at once: from here on minibatches are learned from " + std::to_string(rows_) + " " +
         unit_ + " at a time, which is the same step up to rounding";
}

}  // namespace maglev
