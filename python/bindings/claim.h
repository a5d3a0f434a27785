#pragma once
// The engine's ways with torch, for as long as it works in somebody else's process.

#include <c10/core/Allocator.h>
#include <c10/core/InferenceMode.h>

namespace maglev::python {

/// While one lives torch is as claim_threads leaves it, computes in f32 by default, and this thread is
/// in neither inference mode nor autocast; when the last one ends torch has the threads, the allocator
/// of host memory, the dtype and the precision of products again that its user gave it. A thread that
/// uses torch for the first time meanwhile keeps one thread.
class Claim {
 public:
  Claim();
  ~Claim();
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

 private:
  c10::InferenceMode ordinary_{false};
  bool autocast_cpu_, autocast_cuda_;
};

}  // namespace maglev::python
