#include "engine/host/peaks.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/cuda.h>

#include "base/core/clock.h"
#include "base/core/thread_pool.h"
#include "base/simd/peak.h"
#include "engine/host/system.h"
#include "kernels/tanh/tanh.h"

namespace maglev {
namespace {

constexpr double kEach_s = 0.2;
constexpr int64_t kSize = 384;  // three f32 matrices fit a core's second-level cache
constexpr int64_t kDeviceSize = 4096;
constexpr int kLaunches = 1000;
// blocks that lie in a core's first cache when another asks for them, and in its second
constexpr size_t kSharedFloats = 8192, kSharedLargeFloats = 131072;
constexpr long kThreadBytes = 96l << 20;  // more than one core's caches hold

// that this process may use, as far as is known
double processors(const ThreadPool& pool) {
  const Processor processor = probe_system(".").processor;
  double room = processor.affinity > 0 ? processor.affinity : pool.threads();
  if (processor.quota > 0) room = std::min(room, processor.quota);
  return room;
}

// how often the threads together did `work(thread)` a second of their own processors' time, which
// other programs do not shorten, over about kEach_s; threads beyond the processors there are add
// nothing
double rate(ThreadPool& pool, const std::function<void(int64_t)>& work) {
  std::vector<double> rates(size_t(pool.threads()));
  const double begin = steady_s();
  pool.run(pool.threads(), [&](int64_t thread) {
    const double begin_cpu = thread_cpu_s();
    int64_t done = 0;
    for (; steady_s() - begin < kEach_s; ++done) work(thread);
    if (done > 0) rates[size_t(thread)] = double(done) / (thread_cpu_s() - begin_cpu);
  });
  return std::accumulate(rates.begin(), rates.end(), 0.0) *
         std::min(1.0, processors(pool) / double(pool.threads()));
}

double multiply_add_gflops(ThreadPool& pool) {
  constexpr int64_t kRounds = 10000;
  const double operations = spend_multiply_adds(kRounds);
  return rate(pool, [&](int64_t) { spend_multiply_adds(kRounds); }) * operations / 1e9;
}

// types of products, as train.precision names them
constexpr std::pair<const char*, at::ScalarType> kTypes[] = {
    {"fp64", at::kDouble}, {"fp32", at::kFloat}, {"bf16", at::kBFloat16}, {"fp16", at::kHalf}};

double product_gflops(ThreadPool& pool, at::ScalarType type) {
  std::vector<at::Tensor> left, right, out;
  for (int i = 0; i < pool.threads(); ++i) {
    left.push_back(at::rand({kSize, kSize}).to(type));
    right.push_back(at::rand({kSize, kSize}).to(type));
    out.push_back(at::empty({kSize, kSize}, type));
  }
  const auto multiply = [&](int64_t t) {
    at::NoGradGuard no_grad;
    at::mm_out(out[size_t(t)], left[size_t(t)], right[size_t(t)]);
  };
  // the first product of a thread sets its library up
  pool.run(pool.threads(), multiply);
  return rate(pool, multiply) * 2 * double(kSize * kSize * kSize) / 1e9;
}

double tanh_gigavalues_s(ThreadPool& pool) {
  constexpr int64_t kValues = 2048;
  std::vector<std::vector<float>> values(size_t(pool.threads()), std::vector<float>(kValues, 1.f));
  return rate(pool, [&](int64_t t) { tanh_cpu(values[size_t(t)].data(), kValues); }) *
         double(kValues) / 1e9;
}

double triad_gigabytes_s(ThreadPool& pool, long bytes) {
  const int64_t parts = pool.threads();
  const int64_t count =
      std::max<int64_t>(1024, bytes / 12 / parts);  // floats of one array of one thread
  const auto array = [&] { return std::unique_ptr<float[]>(new float[size_t(count * parts)]); };
  const auto a = array(), b = array(), c = array();
  // pages come to be where the thread that uses them runs
  pool.run(parts, [&](int64_t p) {
    std::fill_n(a.get() + p * count, count, 0.f);
    std::fill_n(b.get() + p * count, count, 1.f);
    std::fill_n(c.get() + p * count, count, 2.f);
  });
  const double passes = rate(pool, [&](int64_t p) {
    float* to = a.get() + p * count;
    const float* x = b.get() + p * count;
    const float* y = c.get() + p * count;
    for (int64_t i = 0; i < count; ++i) to[i] = x[i] + 3.f * y[i];
  });
  return passes * double(count) * 12 / 1e9;
}

// threads add to blocks in turn: each finds in its neighbour's cache what it adds to
double shared_gigabytes_s(ThreadPool& pool, size_t floats) {
  constexpr int64_t kRounds = 100;
  const int64_t threads = pool.threads();
  if (threads == 1 || double(threads) > processors(pool)) return 0;
  std::vector<std::vector<float>> blocks{size_t(threads), std::vector<float>(floats)};
  std::vector<std::vector<double>> seconds{size_t(threads), std::vector<double>(kRounds)};
  std::atomic<int64_t> met{0};
  pool.run(threads, [&](int64_t t) {
    // nothing here asks for memory: who threw would be waited for by all others
    for (int64_t round = 0; round < kRounds; ++round) {
      ++met;
      while (met < (round + 1) * threads) std::this_thread::yield();
      const double begin = steady_s();
      for (float& x : blocks[size_t((t + round) % threads)]) x += 1;
      seconds[size_t(t)][size_t(round)] = steady_s() - begin;
    }
  });
  // the median: the fastest found a block that had left its writer's cache
  double slowest = 0;
  for (auto& rounds : seconds) {
    std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
    slowest = std::max(slowest, rounds[kRounds / 2]);
  }
  return double(floats * sizeof(float)) / 1e9 / slowest;
}

// a block of work ends when every thread has begun one, so that each takes its own
double hand_off_us(ThreadPool& pool) {
  const int64_t threads = pool.threads();
  if (threads == 1) return 0;
  double least = std::numeric_limits<double>::infinity();
  const double begin = steady_s();
  do {
    std::atomic<int64_t> begun{0};
    const double start = steady_s();
    pool.run(threads, [&](int64_t) {
      ++begun;
      while (begun < threads) std::this_thread::yield();
    });
    least = std::min(least, steady_s() - start);
  } while (steady_s() - begin < kEach_s);
  // the fastest: where other programs run, most wait for a processor
  return least * 1e6;
}

// calls a second by the clock until the device has done them, over about kEach_s
double device_rate(at::Device device, const std::function<void()>& work) {
  work();
  torch::cuda::synchronize(device.index());
  const double begin = steady_s();
  int64_t done = 0;
  do {
    for (int i = 0; i < 8; ++i) work();
    torch::cuda::synchronize(device.index());
    done += 8;
  } while (steady_s() - begin < kEach_s);
  return double(done) / (steady_s() - begin);
}

void measure_device(Peaks& peaks, long bytes, at::Device device) {
  at::NoGradGuard no_grad;
  for (const auto& [name, type] : kTypes) {
    const auto options = at::TensorOptions(device).dtype(type);
    const auto left = at::ones({kDeviceSize, kDeviceSize}, options);
    const auto right = at::ones({kDeviceSize, kDeviceSize}, options);
    auto out = at::empty({kDeviceSize, kDeviceSize}, options);
    const double operations = 2. * double(kDeviceSize) * double(kDeviceSize * kDeviceSize);
    peaks.products.push_back(
        {name, device_rate(device, [&] { at::mm_out(out, left, right); }) * operations / 1e9});
  }
  // three arrays larger than caches
  const int64_t count = std::max<int64_t>(1024, bytes / 12);
  const auto x = at::ones({count}, at::TensorOptions(device)), y = at::ones_like(x);
  auto sum = at::empty_like(x);
  peaks.device_gigabytes_s =
      device_rate(device, [&] { at::add_out(sum, x, y, 3); }) * double(count) * 12 / 1e9;
  // copies, and a launch that does next to nothing
  auto pinned = at::empty({count}, at::TensorOptions().pinned_memory(true));
  const double moved = double(count) * 4 / 1e9;
  peaks.to_device_gigabytes_s =
      device_rate(device, [&] { sum.copy_(pinned, /*non_blocking=*/true); }) * moved;
  peaks.to_host_gigabytes_s =
      device_rate(device, [&] { pinned.copy_(sum, /*non_blocking=*/true); }) * moved;
  auto one = at::zeros({1}, at::TensorOptions(device));
  peaks.launch_us = 1e6 /
                    device_rate(device,
                                [&] {
                                  for (int i = 0; i < kLaunches; ++i) one.zero_();
                                }) /
                    kLaunches;
}

}  // namespace

double multiply_add_gflops(int threads) {
  ThreadPool pool(threads);
  return multiply_add_gflops(pool);
}

ThreadPeaks measure_one_thread() {
  ThreadPool alone(1);
  return {.gflops = multiply_add_gflops(alone),
          .gigabytes_s = triad_gigabytes_s(alone, kThreadBytes)};
}

Peaks measure_peaks(int threads, long bytes, at::Device device) {
  const double begin = steady_s();
  ThreadPool pool(threads);
  Peaks peaks;
  peaks.multiply_add_gflops = multiply_add_gflops(pool);
  peaks.tanh_gigavalues_s = tanh_gigavalues_s(pool);
  peaks.gigabytes_s = triad_gigabytes_s(pool, bytes);
  peaks.shared_gigabytes_s = shared_gigabytes_s(pool, kSharedFloats);
  peaks.shared_large_gigabytes_s = shared_gigabytes_s(pool, kSharedLargeFloats);
  peaks.hand_off_us = hand_off_us(pool);
  if (device.is_cuda()) measure_device(peaks, bytes, device);
  else
    for (const auto& [name, type] : kTypes)
      peaks.products.push_back({name, product_gflops(pool, type)});
  peaks.seconds = steady_s() - begin;
  return peaks;
}

}  // namespace maglev
