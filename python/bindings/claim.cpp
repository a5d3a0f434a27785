#include "python/bindings/claim.h"

#include <exception>
#include <mutex>
#include <optional>
#include <pthread.h>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DefaultDtype.h>

#include "base/core/error.h"
#include "base/env/entry.h"
#include "engine/host/machine.h"

namespace maglev::python {
namespace {

/// What a user had before the first of the claims that live.
struct UsersTorch {
  int threads = at::get_num_threads();
  c10::Allocator* allocator = c10::GetCPUAllocator();
  caffe2::TypeMeta dtype = c10::get_default_dtype();
  bool tf32_convolutions = false, tf32_products = false;
  bool tf32_known = true;  ///< not where it was set in a way that does not answer as this

  UsersTorch() {
    try {
      tf32_convolutions = at::globalContext().allowTF32CuDNN();
      tf32_products = at::globalContext().allowTF32CuBLAS();
    } catch (const std::exception&) {
      tf32_known = false;
    }
  }
  // all but the threads, which are each thread's own
  void bring_back() const {
    c10::SetCPUAllocator(allocator, /*priority=*/1);
    c10::set_default_dtype(dtype);
    if (!tf32_known) return;
    at::globalContext().setAllowTF32CuDNN(tf32_convolutions);
    at::globalContext().setAllowTF32CuBLAS(tf32_products);
  }
};

std::mutex claimed;
int claims = 0;
std::optional<UsersTorch> users;

}  // namespace

Claim::Claim()
    : autocast_cpu_(at::autocast::is_autocast_enabled(at::kCPU)),
      autocast_cuda_(at::autocast::is_autocast_enabled(at::kCUDA)) {
  const std::lock_guard lock(claimed);
  if (claims == 0) {
    users.emplace();
    claim_threads();
    c10::set_default_dtype(caffe2::TypeMeta::Make<float>());
  }
  ++claims;
  at::set_num_threads(1);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::set_autocast_enabled(at::kCUDA, false);
}

Claim::~Claim() {
  at::autocast::set_autocast_enabled(at::kCPU, autocast_cpu_);
  at::autocast::set_autocast_enabled(at::kCUDA, autocast_cuda_);
  const std::lock_guard lock(claimed);
  at::set_num_threads(users->threads);
  if (--claims > 0) return;
  try {
    users->bring_back();
  } catch (const std::exception&) {
    // what torch refuses to take back is as claim_threads left it
  }
}

void expect_unforked() {
  static std::atomic<bool> forked{false};
  [[maybe_unused]] static const int told =
      ::pthread_atfork(nullptr, nullptr, [] { forked = true; });
  if (forked)
    throw Error(
        "[fork] this process was forked from one that had made environments or a replay, whose "
        "threads stayed there; start it with multiprocessing.get_context(\"spawn\"), or before the "
        "first maglev.make");
}

IdleEnd::~IdleEnd() {
  for (const EnvEntry& env : env_table())
    if (env.end_idle) env.end_idle();
}

OneAtATime::OneAtATime(std::atomic<bool>& busy, const char* refusal) : busy_(&busy) {
  if (busy.exchange(true)) throw Error(refusal);
}

}  // namespace maglev::python
