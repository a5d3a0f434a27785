#include "envs/gymnasium/workers.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/core/error.h"

namespace maglev::gymnasium {
namespace {

// one that answers a reset, and steps never: it ends its process, or is silent; it writes down that
// it was closed
constexpr const char* kSilent = R"(
import os
import time
import gymnasium
from gymnasium import spaces

class Silent(gymnasium.Env):
    metadata = {"render_fps": 7.5}
    observation_space = spaces.Box(-1, 1, (1,))
    action_space = spaces.Discrete(2)
    def __init__(self, file=""):
        self.file = file
    def reset(self, seed=None, options=None):
        return [0.0], {}
    def step(self, action):
        if action == 0:
            os._exit(3)
        time.sleep(3600)
    def close(self):
        if self.file:
            open(self.file, "a").write("closed\n")

gymnasium.register("Silent-v0", Silent, max_episode_steps=5)
)";

class GymnasiumWorkers : public testing::Test {
 protected:
  void SetUp() override {
    // beside other processes that run the same tests
    folder_ = testing::TempDir() + "/gymnasium_workers_" + std::to_string(::getpid());
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/silent_environment.py") << kSilent;
    ::setenv("PYTHONPATH", folder_.c_str(), 1);
    try {
      Workers::of(made());
    } catch (const Error& error) {
      if (std::string(error.what()).find("No module named 'gymnasium'") == std::string::npos) throw;
      GTEST_SKIP() << error.what();
    }
  }
  void TearDown() override {
    Workers::end_idle();
    ::unsetenv("PYTHONPATH");
    std::filesystem::remove_all(folder_);
  }

  static Made made() { return {.id = "silent_environment:Silent-v0", .workers = 2}; }
  static void ask_step(Remote& remote) {
    remote.reset(1);
    remote.take();
    remote.step(std::as_bytes(std::span(kSleep)));
  }
  static std::string failure_of(Remote& remote) {
    try {
      remote.take();
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  }
  static constexpr std::array<int32_t, 1> kEnd{0}, kSleep{1};
  // in which a process that is not silent answers, also where others have the processors
  static constexpr double kAnswer_s = 5;
  static constexpr const char* kFirst =
      "; its episode began with reset(seed=1), and this was step 1";
  std::string folder_;
};

TEST_F(GymnasiumWorkers, a_silence_that_is_too_long_is_told_and_ends_where_it_may_not_last) {
  Made limited = made();
  limited.timeout = kAnswer_s, limited.late_s = 0.2;
  const auto remote = Workers::of(limited).make_remote();
  ask_step(*remote);
  testing::internal::CaptureStderr();
  const std::string failure = failure_of(*remote);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_EQ(failure,
            "[gymnasium] silent_environment:Silent-v0 has not answered for 5 s, as long as "
            "env.timeout allows, in step" +
                std::string(kFirst));
  EXPECT_TRUE(
      told.starts_with("maglev: [gymnasium] silent_environment:Silent-v0 has not answered "
                       "for "))
      << told;
  EXPECT_NE(told.find(", in step" + std::string(kFirst) + "; it is waited for, and Ctrl-C twice"),
            told.npos)
      << told;
  // all that is asked of the same process from then on fails alike
  remote->reset(1);
  EXPECT_EQ(failure_of(*remote), failure);
}

TEST_F(GymnasiumWorkers, a_silence_is_of_the_episode_that_is_silent_whoever_waits_for_the_process) {
  Made limited = made();
  limited.timeout = kAnswer_s, limited.workers = 1;
  Workers& workers = Workers::of(limited);
  const auto first = workers.make_remote(), second = workers.make_remote();
  first->reset(1), second->reset(2);
  first->take(), second->take();
  first->step(std::as_bytes(std::span(kSleep)));
  second->step(std::as_bytes(std::span(kSleep)));
  std::string beside;
  std::thread other([&] { beside = failure_of(*first); });
  const std::string here = failure_of(*second);
  other.join();
  EXPECT_TRUE(here.ends_with(kFirst)) << here;
  EXPECT_EQ(here, beside);
}

TEST_F(GymnasiumWorkers, a_process_that_ends_names_the_episode_it_was_in_to_all_who_wait) {
  Made alone = made();
  alone.workers = 1, alone.max_steps = 9;
  Workers& workers = Workers::of(alone);
  const auto first = workers.make_remote(), second = workers.make_remote();
  first->reset(1);
  first->take();
  first->step(std::as_bytes(std::span(kEnd)));
  second->reset(2);
  const std::string told = failure_of(*second);
  EXPECT_TRUE(
      told.starts_with("[gymnasium] silent_environment:Silent-v0 its Python process ended "
                       "with exit status 3; it said: "))
      << told;
  EXPECT_TRUE(told.ends_with(kFirst)) << told;
  EXPECT_EQ(failure_of(*first), told);
}

TEST_F(GymnasiumWorkers, who_comes_after_a_failure_has_a_process_of_their_own) {
  Made alone = made();
  alone.workers = 1, alone.max_steps = 7;
  const auto first = Workers::of(alone).make_remote();
  first->reset(1);
  first->take();
  first->step(std::as_bytes(std::span(kEnd)));
  const std::string told = failure_of(*first);
  EXPECT_NE(told.find("exit status 3"), told.npos) << told;
  const auto second = Workers::of(alone).make_remote();
  second->reset(1);
  EXPECT_EQ(failure_of(*second), "none");
  first->reset(1);
  EXPECT_EQ(failure_of(*first), told);
}

TEST_F(GymnasiumWorkers, a_changed_environment_is_read_again_once_nobody_has_the_old_one) {
  auto remote = Workers::of(made()).make_remote();
  // of another length: Python takes what it compiled for the same second and size
  std::string changed = kSilent;
  changed.replace(changed.find("7.5"), 3, "12.25");
  std::ofstream(folder_ + "/silent_environment.py") << changed;
  Workers::end_idle();
  EXPECT_EQ(Workers::of(made()).spec().render_fps, 7.5);
  remote.reset();
  Workers::end_idle();
  EXPECT_EQ(Workers::of(made()).spec().render_fps, 12.25);
}

TEST_F(GymnasiumWorkers, processes_of_nobody_end_on_demand_close_their_environments_and_come_back) {
  const std::string file = folder_ + "/closed";
  Made closing = made();
  closing.kwargs = "{\"file\": \"" + file + "\"}";
  Workers& workers = Workers::of(closing);
  EXPECT_EQ(workers.spec().render_fps, 7.5);
  const int before = use_of_other_programs().running;
  auto first = workers.make_remote(), second = workers.make_remote();
  EXPECT_EQ(use_of_other_programs().running, before + 1);
  first->reset(1), second->reset(2);
  first->take(), second->take();
  // not while somebody's live there
  first.reset();
  Workers::end_idle();
  second->reset(3);
  second->take();
  second.reset();
  Workers::end_idle();
  EXPECT_LE(use_of_other_programs().running, before - 1);
  std::ifstream said(file);
  std::string line;
  int closed = 0;
  while (std::getline(said, line)) closed += line == "closed";
  EXPECT_EQ(closed, 2);
  first = workers.make_remote();
  first->reset(4);
  first->take();
}

}  // namespace
}  // namespace maglev::gymnasium
