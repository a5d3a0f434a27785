#include "engine/trace/kineto.h"

#include <cstdlib>
#include <set>
#include <utility>

#include <ATen/record_function.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/version.h>

#include "base/core/error.h"
#include "engine/host/cpu_cache.h"

static_assert(TORCH_VERSION_MAJOR == 2, "look whether the profiler's interface is still this one");

namespace maglev {
namespace {

using torch::profiler::impl::ActivityType;

// Kineto's levels, which it reads from the environment as it is first used: above the last one
const char* const kSilent = "6";

std::set<ActivityType> activities(bool with_device) {
  std::set<ActivityType> wanted = {ActivityType::CPU};
  if (with_device) wanted.insert(ActivityType::CUDA);
  return wanted;
}

torch::profiler::impl::ProfilerConfig profiler_config(const KinetoDetail& detail) {
  torch::profiler::impl::ExperimentalConfig experimental;
  // pool threads were there before the profiler; allocators find only the profiler of their own
  // thread
  experimental.profile_all_threads = !detail.memory;
  return torch::profiler::impl::ProfilerConfig(
      torch::profiler::impl::ProfilerState::KINETO,
      /*report_input_shapes=*/detail.shapes,
      /*profile_memory=*/detail.memory, /*with_stack=*/false,
      /*with_flops=*/false, /*with_modules=*/false, experimental);
}

// what torch throws, as one of ours
template <class Call>
void told(const char* what, const Call& call) {
  try {
    call();
  } catch (const std::exception& e) {
    const std::string why = e.what();
    throw Error(std::string("[trace] torch's profiler cannot ") + what + ": " +
                why.substr(0, why.find('\n')) + "; use trace.mode=lite");
  }
}

}  // namespace

// made ready alone it would have a device record from here on
Kineto::Kineto(bool with_device, KinetoDetail detail) : with_device_(with_device), detail_(detail) {
  // at any level that shows something it says when it begins and ends, amid the rows of the run
  setenv("KINETO_LOG_LEVEL", kSilent, /*overwrite=*/0);
  start();
  cancel();
}

void Kineto::cancel() {
  if (!std::exchange(started_, false)) return;
  report_cpu_cache(false);
  try {
    torch::autograd::profiler::disableProfiler();
  } catch (const std::exception&) {
    // a window that something cut short has no file
  }
}

void Kineto::start() {
  told("begin", [&] {
    torch::autograd::profiler::prepareProfiler(profiler_config(detail_), activities(with_device_));
    torch::autograd::profiler::enableProfiler(
        profiler_config(detail_), activities(with_device_),
        {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION,
         at::RecordScope::USER_SCOPE});
  });
  started_ = true;
  report_cpu_cache(detail_.memory);
}

void Kineto::stop(const std::string& path) {
  started_ = false;
  report_cpu_cache(false);
  told("write its events", [&] { torch::autograd::profiler::disableProfiler()->save(path); });
}

}  // namespace maglev
