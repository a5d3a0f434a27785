#include "verbs/side_by_side.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "base/core/file.h"
#include "engine/train/signals.h"
#include "tests/folder.h"
#include "verbs/child.h"

namespace maglev {
namespace {

using Gpus = std::vector<std::string>;

TEST(SideBySide, several_gpus_are_dealt_out_and_one_that_was_named_is_not) {
  EXPECT_EQ(gpus_to_deal("auto", 1, 3, nullptr), (Gpus{"0", "1", "2"}));
  EXPECT_EQ(gpus_to_deal("cuda", 1, 2, "4,GPU-7"), (Gpus{"4", "GPU-7"}));
  // what stands behind one that is not there is not seen
  EXPECT_EQ(gpus_to_deal("cuda", 1, 2, "4,5,-1,6"), (Gpus{"4", "5"}));
  EXPECT_EQ(gpus_to_deal("auto", 1, 1, nullptr), Gpus{});
  EXPECT_EQ(gpus_to_deal("cuda:1", 1, 4, nullptr), Gpus{});
  // the processes of a run take one each
  EXPECT_EQ(gpus_to_deal("auto", 2, 4, nullptr), Gpus{});
}

TEST(SideBySide, the_gpu_with_the_fewest_runs_is_next) {
  const Gpus gpus{"4", "5"};
  EXPECT_EQ(next_gpu(gpus, {}), "4");
  EXPECT_EQ(next_gpu(gpus, {"4"}), "5");
  EXPECT_EQ(next_gpu(gpus, {"5"}), "4");
  EXPECT_EQ(next_gpu(gpus, {"4", "5"}), "4");
  EXPECT_EQ(next_gpu({}, {"", ""}), "");
}

TEST(PassedSignals, who_asks_by_name_again_is_passed_on_once) {
  PassedSignals signals;
  std::vector<int> told;
  const auto pass_on = [&] { signals.pass_on([&](int signal) { told.push_back(signal); }); };
  for (int i = 0; i < 2; ++i) {
    ::sigqueue(::getpid(), SIGTERM, sigval{.sival_int = kAskedByName});
    pass_on();
  }
  EXPECT_EQ(told, std::vector<int>{SIGTERM});
  // others' are a request of their own
  std::raise(SIGINT);
  ::sigqueue(::getpid(), SIGUSR1, sigval{.sival_int = kAskedByName});
  pass_on();
  EXPECT_EQ(told, (std::vector<int>{SIGTERM, SIGINT, SIGUSR1}));
}

constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";

// a variable of this process's environment is away while it lives
struct WithoutVariable {
  void take(const char* of) {
    if (const char* had = std::getenv(of)) name = of, value = had;
    unsetenv(of);
  }
  ~WithoutVariable() {
    if (!name.empty()) setenv(name.c_str(), value.c_str(), 1);
  }
  std::string name, value;
};

// run again in a process of its own, it says what it sees
TEST(SideBySide, a_child_sees_the_gpu_it_was_given) {
  constexpr const char* kInChild = "MAGLEV_TEST_IN_CHILD";
  if (std::getenv(kInChild)) {
    const char* seen = std::getenv(kVisible);
    std::printf("sees %s.\n", seen ? seen : "all");
    return;
  }
  const auto seen = [](const std::string& gpu) {
    const std::string log = test_folder() + "/sees" + gpu;
    Child child({"--gtest_filter=*a_child_sees_the_gpu*"}, log, gpu);
    EXPECT_EQ(child.wait(), 0);
    return read_file(log, 1 << 20);
  };
  // it runs whatever part of the tests this is, and writes no report over this one's
  std::vector<WithoutVariable> without(4);
  const char* names[] = {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX", "GTEST_OUTPUT", kVisible};
  for (size_t i = 0; i < without.size(); ++i) without[i].take(names[i]);
  setenv(kInChild, "1", 1);
  EXPECT_NE(seen("7").find("sees 7."), std::string::npos) << seen("7");
  setenv(kVisible, "2,3", 1);
  EXPECT_NE(seen("").find("sees 2,3."), std::string::npos) << seen("");
  EXPECT_NE(seen("3").find("sees 3."), std::string::npos) << seen("3");
  unsetenv(kVisible), unsetenv(kInChild);
}

}  // namespace
}  // namespace maglev
