// Spans as a profiler hears them that asked NVTX for ranges: a library of the tests, which NVTX
// loads in this process. Each case is one of its own, for NVTX looks once.

#include "engine/trace/nvtx.h"

#include <cstdlib>
#include <dlfcn.h>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/trace/span.h"
#include "base/trace/tracer.h"
#include "engine/train/trainer.h"
#include "tests/places.h"

namespace maglev {
namespace {

#ifdef MAGLEV_NVTX

// what one thread was told: names of ranges, a '-' before those within others for each of these
struct ToldThread {
  std::vector<std::string> ranges;
  bool balanced = true;  ///< none ended that had not begun, none is open
};

// the domains' names first, then threads
std::vector<ToldThread> told_threads(std::string& domains) {
  void* library = dlopen(fake_library("nvtx").c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (!library) return {};
  auto* told = reinterpret_cast<const char* (*)()>(dlsym(library, "fake_nvtx_told"));
  std::istringstream lines(told());
  std::getline(lines, domains);
  std::vector<ToldThread> threads;
  int depth = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line == "=") {
      if (!threads.empty()) threads.back().balanced &= depth == 0;
      threads.emplace_back(), depth = 0;
    } else if (line == "-") {
      if (--depth < 0) threads.back().balanced = false;
    } else {
      threads.back().ranges.push_back(std::string(size_t(depth++), '-') + line.substr(1));
    }
  }
  if (!threads.empty()) threads.back().balanced &= depth == 0;
  return threads;
}

TEST(Nvtx, hears_of_spans_on_their_threads_where_a_profiler_asks) {
  setenv("NVTX_INJECTION64_PATH", fake_library("nvtx").c_str(), 1);
  { const auto before = trace::stage("before"); }
  ASSERT_TRUE(tell_nvtx());
  ASSERT_TRUE(tell_nvtx());
  {
    const auto outer = trace::stage("outer", 64);
    const auto inner = trace::wait("inner", "io");
    std::jthread([] { const auto span = trace::stage("elsewhere"); }).join();
  }
  std::string domains;
  const auto threads = told_threads(domains);
  EXPECT_EQ(domains, "maglev");
  ASSERT_EQ(threads.size(), 2u);
  for (const ToldThread& thread : threads) {
    EXPECT_TRUE(thread.balanced);
    EXPECT_EQ(thread.ranges, thread.ranges.size() == 1
                                 ? std::vector<std::string>{"elsewhere"}
                                 : (std::vector<std::string>{"outer", "-inner"}));
  }
}

TEST(Nvtx, hears_of_an_iterations_stages_beside_a_trace_of_ours) {
  setenv("NVTX_INJECTION64_PATH", fake_library("nvtx").c_str(), 1);
  ASSERT_TRUE(tell_nvtx());
  Experiment experiment("ppo", "cartpole");
  for (const char* setting : {"env.count=8", "ppo.rollout=4", "ppo.minibatch=32", "ppo.epochs=1",
                              "ppo.network.hidden=[8]"})
    experiment.table().override_with(setting);
  Trainer trainer(experiment, Placement{.device = at::kCPU, .threads = 2});
  trainer.iterate();
  trace::Tracer tracer(100000);
  // spans that began before and those that end behind it are ranges as all others
  {
    const auto around = trace::stage("around");
    ASSERT_TRUE(tracer.start());
    trainer.iterate();
    tracer.stop();
  }
  trainer.iterate();
  EXPECT_GT(tracer.take().spans(), 0u);
  std::string domains;
  int collects = 0, updates = 0;
  for (const ToldThread& thread : told_threads(domains))
    for (const std::string& range : thread.ranges) {
      collects += range == "collect" || range == "-collect";
      updates += range == "update" || range == "-update";
      // but for the workers, which are idle now
      if (range == "collect") {
        EXPECT_TRUE(thread.balanced);
      }
    }
  EXPECT_EQ(collects, 3);
  EXPECT_EQ(updates, 3);
}

#endif

TEST(Nvtx, hears_of_nothing_where_nobody_asks) {
  unsetenv("NVTX_INJECTION64_PATH");
  EXPECT_FALSE(tell_nvtx());
  EXPECT_EQ(trace::listeners.load(), 0);
}

}  // namespace
}  // namespace maglev
