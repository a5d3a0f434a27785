#include "verbs/plan/rates.h"

#include <algorithm>

#include "base/env/throughput.h"
#include "engine/host/peaks_cache.h"
#include "engine/host/system.h"
#include "engine/train/random_play.h"

namespace maglev::verbs::plan {
namespace {

constexpr int64_t kMeasuredBytes = int64_t(192) << 20;
constexpr double kEnvironment_s = 0.2;
// handing work to one's own thread
constexpr double kCall_us = 1;
// operations that a value through a function counts as on a GPU; a processor's are measured
constexpr double kFlopsAnElement = 40;
// of a published peak what is taken to be had, and a launch within a graph; measured nowhere
constexpr double kHadFlops = 0.5, kHadBytes = 0.8, kGraphLaunch_us = 2;
// and what a bus of PCIe 3.0 with 16 lanes brings from pinned memory
constexpr double kBusGigabytes_s = 12;

Peaks known_peaks(const Placement& placement, std::string& source) {
  if (auto kept = kept_peaks(placement)) {
    source = "peaks as measured before";
    return *kept;
  }
  const int64_t bytes = std::min(kMeasuredBytes, probe_system(".").memory.left() / 4);
  const Peaks peaks = measure_peaks(placement.threads, bytes, placement.device);
  keep_peaks(placement, peaks);
  source = "peaks measured now";
  return peaks;
}

double product_gflops(const Peaks& peaks, Precision precision) {
  const std::string name = precision == Precision::tf32 ? "fp32" : std::string(name_of(precision));
  for (const ProductPeak& product : peaks.products)
    if (product.type == name) return product.gflops;
  return peaks.multiply_add_gflops;
}

double environment_s(const Experiment& experiment, int threads) {
  ThreadPool pool(threads);
  EnvThroughput envs(experiment.env(), own_env_settings(experiment), experiment.run.env_count,
                     pool);
  return 1 / envs.steps_per_second(kEnvironment_s);
}

}  // namespace

KnownRates rates_for(const Experiment& experiment, const Placement& placement,
                     const NamedDevice* device) {
  KnownRates known;
  MachineRates& rates = known.rates;
  const bool half =
      placement.precision == Precision::bf16 || placement.precision == Precision::fp16;
  if (device) {
    // products in tf32 run at half the rate of those in bf16
    const double tflops = half                                     ? device->half_tflops
                          : placement.precision == Precision::tf32 ? device->half_tflops / 2
                                                                   : device->fp32_tflops;
    rates = {.gflops = kHadFlops * tflops * 1e3,
             .gelements = kHadFlops * device->fp32_tflops * 1e3 / kFlopsAnElement,
             .gigabytes_s = kHadBytes * device->gigabytes_s,
             .bus_gigabytes_s = kBusGigabytes_s,
             .launch_s = kGraphLaunch_us * 1e-6};
    known.source = "half of " + std::string(device->name) +
                   "'s published operations, of which products reach what they do on processors, "
                   "80 % of its memory's rate, 2 us a launch: unmeasured";
    if (experiment.env().host_only && experiment.run.dataset.empty()) {
      rates.environment_s = environment_s(experiment, placement.threads);
      known.source += "; the environment's step measured on this host";
    }
    return known;
  }
  const Peaks peaks = known_peaks(placement, known.source);
  known.measured = true;
  if (placement.device.is_cpu()) {
    const double gflops =
        half ? product_gflops(peaks, placement.precision) : peaks.multiply_add_gflops;
    rates = {.gflops = gflops,
             .gelements = peaks.tanh_gigavalues_s,
             .gigabytes_s = peaks.gigabytes_s,
             .shared_gigabytes_s = peaks.shared_gigabytes_s,
             .shared_large_gigabytes_s = peaks.shared_large_gigabytes_s,
             .launch_s = std::max(peaks.hand_off_us, kCall_us) * 1e-6,
             .environment_s = environment_s(experiment, placement.threads),
             .trials = true};
  } else {
    rates = {.gflops = product_gflops(peaks, placement.precision),
             .gelements = product_gflops(peaks, Precision::fp32) / kFlopsAnElement,
             .gigabytes_s = peaks.device_gigabytes_s,
             .bus_gigabytes_s = peaks.to_device_gigabytes_s,
             .launch_s = kGraphLaunch_us * 1e-6};
    if (experiment.env().host_only)
      rates.environment_s = environment_s(experiment, placement.threads);
  }
  return known;
}

}  // namespace maglev::verbs::plan
