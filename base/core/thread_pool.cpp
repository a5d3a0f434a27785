#include "base/core/thread_pool.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sched.h>
#include <string>
#include <utility>

#include "base/core/error.h"
#include "base/core/spin.h"
#include "base/trace/span.h"

namespace maglev {
namespace {

// spins before a worker sleeps: about 20 microseconds, longer than the gap between two environment
// steps
constexpr int kSpins = 4000;

}  // namespace

ThreadPool::ThreadPool(int threads, std::function<void()> on_start) {
  MAGLEV_ASSERT(threads >= 1, "a pool counts its caller");
  try {
    for (int i = 1; i < threads; ++i)
      workers_.emplace_back([this, i, on_start] {
        trace::name_thread(("pool " + std::to_string(i)).c_str());
        worker_main(on_start);
      });
  } catch (const std::exception& e) {
    // those that were made wait on what this object is about to lose
    const int made = this->threads();
    end_workers();
    throw Error("[threads] thread " + std::to_string(made + 1) + " of " + std::to_string(threads) +
                " cannot be made: " + e.what() +
                "; take fewer with threads=<n>, or raise the limits of this process (ulimit -u, "
                "ulimit -v)");
  }
}

ThreadPool::~ThreadPool() { end_workers(); }

void ThreadPool::end_workers() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    round_.fetch_add(1);
  }
  wake_.notify_all();
  for (auto& w : workers_) w.join();
}

void ThreadPool::run(int64_t blocks, WorkRef work) {
  if (blocks <= 0) return;
  if (workers_.empty() || blocks == 1) {
    for (int64_t b = 0; b < blocks; ++b) work.call(work.work, b);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    work_ = work;
    blocks_ = blocks;
    done_.store(0, std::memory_order_relaxed);
    unclaimed_.store(blocks, std::memory_order_release);
    round_.fetch_add(1);
  }
  wake_.notify_all();
  drain();
  if (done_.load(std::memory_order_acquire) != blocks) {
    const auto span = trace::wait("pool", "pool");
    for (int spins = 0; done_.load(std::memory_order_acquire) != blocks; ++spins) {
      // a worker may have lost its processor in the middle of a block: leave it this one
      if (spins < kSpins) spin_pause();
      else std::this_thread::yield();
    }
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::drain() {
  for (int64_t left = unclaimed_.load(std::memory_order_acquire); left > 0;) {
    // a round cannot end, nor the next begin, while a block of it is claimed and not done
    if (!unclaimed_.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel,
                                          std::memory_order_acquire))
      continue;
    try {
      work_.call(work_.work, blocks_ - left);
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
    done_.fetch_add(1, std::memory_order_release);
    left = unclaimed_.load(std::memory_order_acquire);
  }
}

void ThreadPool::worker_main(const std::function<void()>& on_start) {
  if (on_start) on_start();
  uint64_t seen = 0;
  for (;;) {
    {
      const auto span = trace::wait("idle", "pool");
      for (int i = 0; i < kSpins && round_.load(std::memory_order_acquire) == seen; ++i)
        spin_pause();
      if (round_.load(std::memory_order_acquire) == seen) {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return round_.load() != seen; });
      }
    }
    seen = round_.load(std::memory_order_acquire);
    if (stop_) return;
    drain();
  }
}

int usable_cpus() {
  cpu_set_t set;
  int cpus = int(std::max(1u, std::thread::hardware_concurrency()));
  if (sched_getaffinity(0, sizeof set, &set) == 0) cpus = std::max(1, CPU_COUNT(&set));
  // cgroup v2, "<quota|max> <period>" in microseconds: the tightest from this process's group up
  std::ifstream own("/proc/self/cgroup");
  std::string group;
  for (std::string line; std::getline(own, line);)
    if (line.starts_with("0::")) group = line.substr(3);
  for (;;) {
    std::ifstream file("/sys/fs/cgroup" + group + "/cpu.max");
    std::string quota;
    double period = 0;
    if (file >> quota >> period && quota != "max" && period > 0)
      cpus = std::min(cpus, std::max(1, int(std::ceil(std::stod(quota) / period))));
    if (group.empty()) break;
    group.resize(group.find_last_of('/') == std::string::npos ? 0 : group.find_last_of('/'));
  }
  return cpus;
}

}  // namespace maglev
