#pragma once
// One thread that does one thing at a time beside its owner.

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace maglev {

class Background {
 public:
  /// `name`: of the thread, in traces. Throws Error when the system gives no thread.
  explicit Background(const char* name);
  /// Waits for what was started.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// Does `work` on the thread. What was started before is over: wait() was called.
  void start(std::function<void()> work);
  /// Until it is done, or at once where nothing was started. Rethrows what it threw.
  void wait();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;  ///< empty: nothing to do
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace maglev
