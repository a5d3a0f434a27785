#include "verbs/kernels/bench.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <unistd.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/cuda.h>

#include "base/core/clock.h"
#include "base/core/printed.h"
#include "engine/host/peaks.h"
#include "verbs/kernels/parity.h"
#include "verbs/table.h"

namespace maglev::verbs::kernels {
namespace {

constexpr int kBatches = 9;
constexpr double kBatch_s = 2e-3;

double now_s(at::Device device) {
  // wall time until a device is done; of a CPU this thread's own
  if (!device.is_cuda()) return thread_cpu_s();
  torch::cuda::synchronize(device.index());
  return steady_s();
}

double batch_seconds(const std::function<void()>& work, int64_t calls, at::Device device) {
  const double begin = now_s(device);
  for (int64_t i = 0; i < calls; ++i) work();
  return now_s(device) - begin;
}

std::string time_text(double seconds) {
  if (seconds < 1e-6) return printed("%.0f ns", seconds * 1e9);
  if (seconds < 1e-3) return printed("%.1f us", seconds * 1e6);
  return printed("%.2f ms", seconds * 1e3);
}

std::string rate_text(int64_t count, double seconds) {
  return count > 0 ? printed("%.2f", double(count) / seconds / 1e9) : "-";
}

}  // namespace

double median_seconds(const std::function<void()>& work, at::Device device) {
  // warm first, then as many calls as fill a batch's time
  work();
  int64_t calls = 1;
  while (batch_seconds(work, calls, device) < kBatch_s) calls *= 2;
  // the median: what other programs take from one batch does not show
  std::array<double, kBatches> seconds;
  for (double& s : seconds) s = batch_seconds(work, calls, device) / double(calls);
  std::nth_element(seconds.begin(), seconds.begin() + kBatches / 2, seconds.end());
  return seconds[kBatches / 2];
}

double Peak::bytes_s(int64_t bytes) {
  // source and target together are the working set
  int64_t half = 2048;
  while (2 * half < bytes) half *= 2;
  double& known = bytes_s_[half];
  if (known > 0) return known;
  std::vector<char> from(size_t(half), 1), to(size_t(half), 2);
  const double seconds = median_seconds(
      [&] {
        std::memcpy(to.data(), from.data(), size_t(half));
        // the copy counts as used
        asm volatile("" : : "r"(to.data()) : "memory");
      },
      at::kCPU);
  return known = double(2 * half) / seconds;
}

double Peak::flops_s() {
  if (flops_s_ == 0) flops_s_ = multiply_add_gflops(1) * 1e9;
  return flops_s_;
}

BenchResult bench_case(const KernelCase& one, at::Device device, Peak& peak) {
  at::NoGradGuard no_grad;
  // where a case has work to repeat, nothing is set up in it
  const auto timed = [&](const std::function<void()>& repeat,
                         const std::function<Tensors(const Tensors&)>& function) {
    if (repeat) return median_seconds(repeat, device);
    return median_seconds([&] { function(one.inputs); }, device);
  };
  BenchResult result{.reference_s = timed(one.repeat_reference, one.reference),
                     .fused_s = timed(one.repeat_fused, one.fused)};
  // peaks are measured on the CPU only
  if (!device.is_cpu()) return result;
  // the longer of moving the bytes and of computing
  double least_s = one.bytes > 0 ? double(one.bytes) / peak.bytes_s(one.bytes) : 0;
  if (one.flops > 0) least_s = std::max(least_s, double(one.flops) / peak.flops_s());
  result.share_of_peak = least_s / result.fused_s;
  return result;
}

int print_bench(const std::vector<KernelEntry>& kernels, const std::vector<at::Device>& devices) {
  Peak peak;
  // a table for each kernel, once it is measured
  for (const KernelEntry& kernel : kernels) {
    Table table({"kernel", "device", "case", ">reference", ">fused", ">speed-up", ">GB/s",
                 ">GFLOP/s", ">of peak"});
    int64_t cases = 0;
    for (const at::Device& device : devices)
      for (const KernelCase& one : kernel.cases(device)) {
        const BenchResult r = bench_case(one, device, peak);
        ++cases;
        table.add({kernel.name, device.str(), one.name, time_text(r.reference_s),
                   time_text(r.fused_s), printed("%.2f x", r.reference_s / r.fused_s),
                   rate_text(one.bytes, r.fused_s), rate_text(one.flops, r.fused_s),
                   r.share_of_peak > 0 ? printed("%.0f%%", 100 * r.share_of_peak) : "-"});
      }
    if (cases == 0) continue;
    print(table.text(probe_terminal(STDOUT_FILENO)) + "\n");
    std::fflush(stdout);
  }
  print("One thread, its processor time, median of " + std::to_string(kBatches) +
        ". Peak: the longer of copying the case's bytes within its working set and of computing\n"
        "its operations at " +
        printed("%.0f", peak.flops_s() / 1e9) +
        " GFLOP/s, what one core's f32 multiply-adds allow. A copy writes as much\n"
        "as it reads: what reads more than it writes may move its bytes faster.\n" +
        without_cases(kernels, devices));
  return 0;
}

}  // namespace maglev::verbs::kernels
