#include "engine/train/stall_watch.h"

#include <chrono>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "base/core/clock.h"
#include "base/core/file.h"
#include "base/trace/span.h"
#include "engine/train/training_run.h"
#include "tests/errors.h"
#include "tests/folder.h"

namespace maglev {
namespace {

using namespace std::chrono_literals;

// what a watch has said so far; it may stand still or not as the test says
struct Watched {
  std::mutex mutex;
  std::vector<std::string> lines;
  std::atomic<bool> moves{false};
  std::atomic<int> ended{0};
  StallWatch watch;

  explicit Watched(StallWatch::Limits limits)
      : watch(limits, {.say =
                           [this](const std::string& line) {
                             const std::lock_guard lock(mutex);
                             lines.push_back(line);
                           },
                       .end = [this] { ++ended; },
                       .device = [] { return std::string("the GPU's stream has no work"); },
                       .passed = [this] { return moves ? ++count : count; },
                       .threads =
                           [] {
                             return std::vector<trace::ThreadNow>{
                                 {.tid = 1, .name = "main", .open = {"iteration", "collect"}}};
                           }}) {}
  size_t said() {
    const std::lock_guard lock(mutex);
    return lines.size();
  }
  // whether there are so many lines, sooner or later
  bool says(size_t count) {
    for (const double end_s = steady_s() + 200; said() < count && steady_s() < end_s;)
      std::this_thread::sleep_for(5ms);
    return said() >= count;
  }
  uint64_t count = 0;
};

TEST(StallWatch, tells_where_threads_are_and_again_after_twice_as_long) {
  Watched run({.tell_s = 0.05});
  run.watch.iteration(1e-6);
  ASSERT_TRUE(run.says(2));
  EXPECT_TRUE(run.lines[0].starts_with("no progress for ")) << run.lines[0];
  EXPECT_TRUE(contains(run.lines[0], " s, since ")) << run.lines[0];
  EXPECT_TRUE(
      contains(run.lines[0],
               ": main in iteration > collect; the GPU's stream has no work; the run goes on "
               "waiting (train.stall=0: never say this)"))
      << run.lines[0];
  EXPECT_EQ(run.ended, 0);
}

TEST(StallWatch, ends_what_stands_still_for_longer_and_says_so) {
  Watched run({.tell_s = 1e6, .end_s = 0.05});
  run.watch.iteration(1e-6);
  for (const double end_s = steady_s() + 200; run.ended == 0 && steady_s() < end_s;)
    std::this_thread::sleep_for(5ms);
  ASSERT_GE(run.ended, 1);
  ASSERT_TRUE(run.says(1));
  EXPECT_TRUE(contains(run.lines[0],
                       ": main in iteration > collect; the GPU's stream has no work; "
                       "the process ends in a second unless it moves (train.stall_end)"))
      << run.lines[0];
}

TEST(StallWatch, ends_though_a_line_that_is_told_hangs) {
  std::atomic<bool> hangs{true};
  std::atomic<int> ended{0};
  {
    StallWatch watch({.tell_s = 0.02, .end_s = 0.2}, {.say =
                                                          [&](const std::string&) {
                                                            while (hangs)
                                                              std::this_thread::sleep_for(5ms);
                                                          },
                                                      .end = [&] { ++ended; },
                                                      .passed = [] { return uint64_t(0); }});
    watch.iteration(1e-6);
    for (const double end_s = steady_s() + 200; ended == 0 && steady_s() < end_s;)
      std::this_thread::sleep_for(5ms);
    EXPECT_EQ(ended, 1);
    hangs = false;
  }
}

TEST(StallWatch, says_nothing_while_spans_pass_or_who_waits_tells_it_or_the_limit_is_0) {
  Watched moving({.tell_s = 0.02, .end_s = 0.02}), off({});
  moving.moves = true;
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(moving.said(), 0u);
  {
    const trace::ReportsOwnWait tells;
    moving.moves = false;
    std::this_thread::sleep_for(300ms);
    EXPECT_EQ(moving.said(), 0u);
  }
  EXPECT_TRUE(moving.says(1));
  EXPECT_EQ(off.said(), 0u);
}

TEST(StallWatch, waits_for_twenty_times_the_longest_iteration) {
  Watched run({.tell_s = 0.02});
  run.watch.iteration(1e6);
  run.watch.iteration(1e-3);
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(run.said(), 0u);
}

TEST(StallWatch, names_threads_that_are_in_the_same_together) {
  const std::vector<trace::ThreadNow> threads{{.name = "main", .open = {"collect", "pool"}},
                                              {.name = "pool 1", .open = {"env_step"}},
                                              {.name = "pool 2", .open = {"idle"}},
                                              {.name = "pool 3", .open = {"env_step"}},
                                              {.name = "metrics", .open = {}}};
  EXPECT_EQ(whereabouts_text(threads),
            "main in collect > pool; pool 1, pool 3 in env_step; 1 idle");
  EXPECT_EQ(whereabouts_text({{.name = "main"}}), "main in no stage");
}

// a run of two iterations into `out`, with hooks that make it stand still
RunOutcome train_stalling(const char* setting, const std::string& out, const Hooks& hooks) {
  Experiment experiment("ppo", "cartpole");
  for (const char* given :
       {setting, "train.steps=512", "env.count=8", "ppo.rollout=16", "ppo.minibatch=128",
        "ppo.epochs=1", "ppo.network.hidden=[8]", "threads=1", "device=cpu"})
    experiment.table().override_with(given);
  return train_new(experiment, {.out = out, .sinks = {"jsonl"}, .hooks = hooks});
}

TEST(StallWatch, a_run_that_stands_still_says_so_and_goes_on) {
  const std::string out = test_folder() + "/stalls";
  const auto log = [&] { return read_file(out + "/log.txt", 1 << 20); };
  const std::string told = ": main in iteration > hook iteration_start";
  Hooks hooks;
  hooks.iteration_start = [&](int64_t step) {
    // stands still until that was said: twenty times as long as an iteration took, here
    for (const double end_s = steady_s() + 200;
         step == 256 && !contains(log(), told) && steady_s() < end_s;)
      std::this_thread::sleep_for(20ms);
  };
  EXPECT_EQ(train_stalling("train.stall=0.1", out, hooks), RunOutcome::finished);
  EXPECT_TRUE(contains(log(), told)) << log();
}

TEST(StallWatch, a_run_that_stands_still_is_ended_where_that_was_asked) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string out = test_folder() + "/ends";
  Hooks hooks;
  hooks.iteration_start = [&](int64_t step) {
    while (step == 256) std::this_thread::sleep_for(20ms);
  };
  EXPECT_EXIT(train_stalling("train.stall_end=0.1", out, hooks), testing::ExitedWithCode(kStalled),
              "");
}

}  // namespace
}  // namespace maglev
