#include "envs/gymnasium/workers.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/core/clock.h"
#include "base/core/error.h"

namespace maglev::gymnasium {
namespace {

// one that answers a reset, and steps never; it writes down that it was closed
constexpr const char* kSilent = R"(
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
        time.sleep(60)
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
    remote.step(std::as_bytes(std::span(kAction)));
  }
  static constexpr std::array<int32_t, 1> kAction{1};
  std::string folder_;
};

TEST_F(GymnasiumWorkers, a_silence_that_is_too_long_is_told_and_ends_where_it_may_not_last) {
  Made limited = made();
  limited.timeout = 2, limited.late_s = 0.2;
  const auto remote = Workers::of(limited).make_remote();
  ask_step(*remote);
  const double begin_s = steady_s();
  testing::internal::CaptureStderr();
  std::string failure;
  try {
    remote->take([] { return std::string("; of seed 1"); });
  } catch (const Silence& error) {
    failure = error.what();
  }
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(
      failure.starts_with("[gymnasium] silent_environment:Silent-v0 has not answered for 2 "
                          "s, as long as env.timeout allows, in step; of seed 1"))
      << failure;
  EXPECT_LT(steady_s() - begin_s, 20);
  EXPECT_TRUE(
      told.starts_with("maglev: [gymnasium] silent_environment:Silent-v0 has not answered "
                       "for "))
      << told;
  EXPECT_NE(told.find(", in step; of seed 1; it is waited for, and Ctrl-C twice"), told.npos)
      << told;
  // all that is asked of the same process from then on fails alike
  EXPECT_THROW(ask_step(*remote), Silence);
}

TEST_F(GymnasiumWorkers, a_silence_is_of_one_episode_whoever_waits_for_the_process) {
  Made limited = made();
  limited.timeout = 2, limited.workers = 1;
  Workers& workers = Workers::of(limited);
  const auto first = workers.make_remote(), second = workers.make_remote();
  first->reset(1), second->reset(2);
  first->take(), second->take();
  first->step(std::as_bytes(std::span(kAction)));
  second->step(std::as_bytes(std::span(kAction)));
  const auto failure_of = [](Remote& remote, const char* seed) -> std::string {
    try {
      remote.take([seed] { return std::string("; of seed ") + seed; });
    } catch (const Silence& error) {
      return error.what();
    }
    return "none";
  };
  std::string beside;
  std::thread other([&] { beside = failure_of(*second, "2"); });
  const std::string here = failure_of(*first, "1");
  other.join();
  EXPECT_NE(here.find("; of seed "), here.npos) << here;
  EXPECT_EQ(here, beside);
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
