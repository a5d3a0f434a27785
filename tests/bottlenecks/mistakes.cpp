#include "tests/bottlenecks/mistakes.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/trace/span.h"

namespace maglev {
namespace {

using namespace std::chrono_literals;

// A service that is asked and answers after a while, as trackers of experiments are: one question
// at a time, on a thread of its own.
class Tracker {
 public:
  explicit Tracker(std::chrono::microseconds takes)
      : thread_([this, takes](std::stop_token stop) { serve(stop, takes); }) {}

  // asks, and waits for the answer
  void ask() {
    std::unique_lock lock(mutex_);
    const int64_t mine = ++asked_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return answered_ >= mine; });
  }

 private:
  void serve(const std::stop_token& stop, std::chrono::microseconds takes) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [&] { return asked_ > answered_; })) {
      const int64_t served = asked_;
      lock.unlock();
      std::this_thread::sleep_for(takes);
      lock.lock();
      answered_ = served;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  int64_t asked_ = 0, answered_ = 0;
  std::jthread thread_;  // ends first
};

// each row of metrics is sent, and its receipt waited for
Hooks logs_slowly() {
  auto tracker = std::make_shared<Tracker>(20ms);
  return {.row = [tracker](const MetricRow&) { tracker->ask(); }};
}

// so is each pass's loss
Hooks reads_metrics() {
  auto tracker = std::make_shared<Tracker>(10ms);
  return {.epoch = [tracker](int64_t, const Figures&) { tracker->ask(); }};
}

// "a copy to be safe" of what was collected, before each iteration: as much as pictures would be
Hooks copies() {
  constexpr size_t kBytes = size_t(64) << 20;
  struct Buffers {
    std::vector<std::byte> rollout = std::vector<std::byte>(kBytes);
    std::vector<std::byte> kept = std::vector<std::byte>(kBytes);
  };
  auto buffers = std::make_shared<Buffers>();
  return {.iteration_start = [buffers](int64_t) {
    const auto span = trace::copy("rollout", int64_t(kBytes), "HtoH", /*pageable=*/true);
    std::memcpy(buffers->kept.data(), buffers->rollout.data(), kBytes);
  }};
}

// A run of `iterations` of 512 steps on one thread, which says what bounds it every now and then.
std::vector<std::string> small(int64_t iterations, const std::vector<std::string>& more = {}) {
  std::vector<std::string> run{"env.count=8",
                               "ppo.rollout=64",
                               "ppo.minibatch=256",
                               "threads=1",
                               "train.steps=" + std::to_string(512 * iterations),
                               "train.log_every=512",
                               "train.save_every=1000000",
                               "train.monitor_every=0.2"};
  run.insert(run.end(), more.begin(), more.end());
  return run;
}

}  // namespace

std::span<const Mistake> mistakes() {
  static const std::vector<Mistake> all{
      {"slow_environment",
       "slow environment",
       "environment",
       "chore",
       small(20),
       {"env.chore=computes", "env.cost_us=100"}},
      {"waiting_environment",
       "waiting environment",
       "environment",
       "chore",
       small(24),
       {"env.chore=waits", "env.cost_us=100"}},
      {"shared_server",
       "lock contention",
       "",
       "chore",
       small(24, {"threads=2"}),
       {"env.chore=locks", "env.cost_us=100"}},
      {"uneven_environments",
       "uneven environments",
       "",
       "chore",
       small(24, {"threads=2"}),
       {"env.chore=uneven", "env.cost_us=1000"}},
      {"allocating_environment",
       "page faults",
       "environment",
       "chore",
       small(1, {"env.count=4", "ppo.rollout=2", "ppo.minibatch=0", "train.log_every=8",
                 "train.steps=192"}),
       {"env.chore=allocates", "env.cost_us=9000"}},
      {"crowded",
       "more threads than processors",
       "more threads than processors",
       "cartpole",
       small(640, {"env.count=1024", "ppo.rollout=16", "ppo.minibatch=2048",
                   "train.log_every=16384", "threads=2"}),
       {"threads=32"}},
      {"tiny_minibatches",
       "tiny minibatches",
       "learning",
       "cartpole",
       small(120),
       {"ppo.minibatch=4"}},
      {"slow_logger",
       "slow logger",
       "logging",
       "cartpole",
       small(40),
       {"train.log_every=1"},
       logs_slowly},
      {"waiting_metric", "slow hook", "hooks", "cartpole", small(32), {}, reads_metrics},
      {"checkpoints", "checkpoints", "saving", "cartpole", small(40), {"train.save_every=1"}},
      {"evaluation",
       "evaluation",
       "",
       "cartpole",
       small(40),
       {"train.eval_every=512", "train.eval_episodes=600"}},
      {"copies", "pageable copies", "hooks", "cartpole", small(120), {}, copies}};
  return all;
}

}  // namespace maglev
