#include "verbs/doctor/measure.h"

#include <algorithm>
#include <ctime>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/core/clock.h"
#include "base/core/thread_pool.h"
#include "base/simd/peak.h"

namespace maglev::verbs::doctor {
namespace {

constexpr double kEach_s = 0.2;
constexpr int64_t kSize = 384;  // three f32 matrices fit a core's second-level cache

double processor_s() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

// how often the threads together did `work(thread)` a second of their own processors' time, which
// other programs do not shorten, over about kEach_s
double rate(ThreadPool& pool, const std::function<void(int64_t)>& work) {
  std::vector<double> rates(size_t(pool.threads()));
  const double begin = steady_s();
  pool.run(pool.threads(), [&](int64_t thread) {
    const double begin_cpu = processor_s();
    int64_t done = 0;
    for (; steady_s() - begin < kEach_s; ++done) work(thread);
    if (done > 0) rates[size_t(thread)] = double(done) / (processor_s() - begin_cpu);
  });
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

double multiply_add_gflops(ThreadPool& pool) {
  constexpr int64_t kRounds = 10000;
  const double operations = spend_multiply_adds(kRounds);
  return rate(pool, [&](int64_t) { spend_multiply_adds(kRounds); }) * operations / 1e9;
}

double product_gflops(ThreadPool& pool) {
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> left, right, out;
  for (int i = 0; i < pool.threads(); ++i) {
    left.push_back(at::rand({kSize, kSize}));
    right.push_back(at::rand({kSize, kSize}));
    out.push_back(at::empty({kSize, kSize}));
  }
  const auto multiply = [&](int64_t t) {
    at::mm_out(out[size_t(t)], left[size_t(t)], right[size_t(t)]);
  };
  // the first product of a thread sets its library up
  pool.run(pool.threads(), multiply);
  return rate(pool, multiply) * 2 * double(kSize * kSize * kSize) / 1e9;
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

}  // namespace

double multiply_add_gflops(int threads) {
  ThreadPool pool(threads);
  return multiply_add_gflops(pool);
}

Measured measure(int threads, long bytes) {
  const double begin = steady_s();
  ThreadPool pool(threads);
  Measured measured;
  measured.multiply_add_gflops = multiply_add_gflops(pool);
  measured.product_gflops = product_gflops(pool);
  measured.gigabytes_s = triad_gigabytes_s(pool, bytes);
  measured.seconds = steady_s() - begin;
  return measured;
}

}  // namespace maglev::verbs::doctor
