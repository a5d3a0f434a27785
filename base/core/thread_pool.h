#pragma once
// Fork-join over a fixed number of blocks. Which thread runs a block is never visible in a result:
// blocks are cut by the caller from sizes alone, so a run is the same for any number of threads.
// Threads: one caller at a time; workers spin briefly between calls, then sleep. The caller waits
// for blocks, never for workers: one that the system has not scheduled holds nobody up.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace maglev {

class ThreadPool {
 public:
  /// `threads` >= 1 counts the caller. `on_start` runs once on each worker before its first block.
  /// Throws Error when the system gives fewer.
  explicit ThreadPool(int threads, std::function<void()> on_start = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return int(workers_.size()) + 1; }

  /// Runs work(block) for each block in [0, blocks), returns when all are done. The first exception
  /// is rethrown here, after the other blocks.
  template <class Work>
  void run(int64_t blocks, const Work& work) {
    run(blocks, {&work, [](const void* w, int64_t b) { (*static_cast<const Work*>(w))(b); }});
  }

 private:
  /// A caller's function without a copy of it, which would have to be allocated.
  struct WorkRef {
    const void* work;
    void (*call)(const void* work, int64_t block);
  };
  void run(int64_t blocks, WorkRef work);
  void worker_main(const std::function<void()>& on_start);
  void end_workers();
  void drain();

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<uint64_t> round_{0};
  std::atomic<int64_t> unclaimed_{0};  ///< blocks of this round nobody has taken
  std::atomic<int64_t> done_{0};       ///< blocks of this round that are finished
  std::atomic<bool> stop_{false};
  /// Of this round. Written while unclaimed_ is 0, read only after a claim, which keeps the round
  /// open.
  int64_t blocks_ = 0;
  WorkRef work_{};
  std::exception_ptr error_;
};

/// Processors this process may use: the affinity mask, bounded by the cgroup's CPU quota, at least
/// 1.
int usable_cpus();

}  // namespace maglev
