#pragma once
// What the engine takes for as long as it works in somebody else's process: torch its own way, and
// a thing to itself.

#include <atomic>

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

/// Throws Error in a process that was forked from one that had called this: threads, torch's too, and
/// what steps environments of Python stayed there.
void expect_unforked();

/// Behind a job, or a policy that was loaded: in a process that stays, such as a notebook's, the next
/// one is to find environments of Python as their files are then.
struct IdleEnd {
  ~IdleEnd();
};

/// While one lives nobody else has the same flag: Error of `refusal`, where two threads would work on
/// one thing.
class OneAtATime {
 public:
  static constexpr const char* kSameThing =
      "[threads] two threads work with the same environments or policy at once; give each its own";

  explicit OneAtATime(std::atomic<bool>& busy, const char* refusal = kSameThing);
  ~OneAtATime() { busy_->store(false); }
  OneAtATime(const OneAtATime&) = delete;
  OneAtATime& operator=(const OneAtATime&) = delete;

 private:
  std::atomic<bool>* busy_;
};

}  // namespace maglev::python
