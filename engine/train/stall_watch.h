#pragma once
// Says once in a while that a run makes no progress, and what its threads are in: a run that waits
// for ever, for a disk, a device or an environment, looks from outside as one that computes. It
// ends nothing unless that was asked. Threads: a thread of its own looks, tells and ends;
// iteration() is the run's.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/core/background.h"
#include "base/trace/open_spans.h"

namespace maglev {

class StallWatch {
 public:
  /// Before the first iteration it is told after so many times the limit: libraries set themselves
  /// up, pages are touched for the first time.
  static constexpr double kBeforeFirst = 5;
  /// Later never before so many times the longest iteration.
  static constexpr double kOfLongest = 20;

  struct Limits {
    double tell_s = 0;  ///< seconds without a span that begins or ends; 0: it is never told
    double end_s = 0;   ///< likewise until it is ended; 0: never
  };
  /// What it asks and whom it tells, on its own thread.
  struct Asks {
    std::function<void(const std::string&)> say;
    std::function<void()> end = {};  ///< ends the process at once; where Limits::end_s is given
    std::function<std::string()> device = {};  ///< what a GPU does meanwhile; empty: there is none
    std::function<uint64_t()> passed = trace::spans_passed;
    std::function<std::vector<trace::ThreadNow>()> threads = trace::threads_now;
  };
  /// Tells where no span begins or ends for so long, then for twice as long, and so on: at first
  /// for kBeforeFirst times as long, later never for less than kOfLongest iterations. Ends it after
  /// end_s, whatever iterations take, and though telling it hangs. What waits and tells people
  /// itself (trace::ReportsOwnWait) is left alone. Throws Error where the system gives no thread.
  StallWatch(Limits limits, Asks asks);
  ~StallWatch();
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

  /// One is over that took so long.
  void iteration(double seconds);

 private:
  void watch();
  /// On a thread of its own, for a disk or a device that does not answer holds it up: not at all
  /// while the line before is still on its way.
  void tell(double silent_s, const std::string& what_comes);

  /// Limits::tell_s as it is for now.
  double tell_limit_s() const;

  const Limits limits_;
  const Asks asks_;
  std::atomic<double> longest_s_{0};  ///< iteration; 0: none is over
  std::mutex mutex_;                  ///< of over_
  std::condition_variable changed_;
  bool over_ = false;
  std::atomic<bool> telling_{false};
  std::unique_ptr<Background> teller_;  ///< null: nobody is to be told
  std::unique_ptr<Background> thread_;  ///< ends first; null likewise
};

/// "main in iteration > collect > env_step; pool 1, pool 2 in env_step; 3 idle": those in no span
/// are left out, but for the main one.
std::string whereabouts_text(const std::vector<trace::ThreadNow>& threads);
/// What a stream of CUDA device `device` does, or why it cannot be asked. Any thread may ask; the
/// device becomes the thread's own.
std::string stream_text(int device, void* stream);

}  // namespace maglev
