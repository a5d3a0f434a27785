#include "engine/device/step_graph.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/errors.h"

namespace maglev {
namespace {

using Calls = std::vector<std::string>;

/// A runtime that writes down what is asked of it, and fails where a test says.
struct Runtime {
  Calls calls;
  std::string fails;

  void call(const std::string& name) {
    calls.push_back(name);
    if (name == fails) throw std::runtime_error(name + " failed\nat some place");
  }
  std::string capture(const std::string& failing) {
    calls.clear(), fails = failing;
    return error_of([&] {
      capture_with({.begin = [&] { call("begin"); },
                    .end = [&] { call("end"); },
                    .leave_pool = [&] { call("leave pool"); },
                    .forget_error = [&] { call("forget error"); }},
                   "learn", [&] { call("stage"); });
    });
  }
};

TEST(Capture, that_succeeds_ends_once) {
  Runtime runtime;
  EXPECT_EQ(runtime.capture("nothing"), "");
  EXPECT_EQ(runtime.calls, (Calls{"begin", "stage", "end"}));
}

TEST(Capture, that_fails_leaves_the_stream_and_the_allocators_pool_wherever_it_fails) {
  Runtime runtime;
  EXPECT_EQ(runtime.capture("begin"), "[graph] learn: begin failed");
  EXPECT_EQ(runtime.calls, (Calls{"begin", "leave pool", "forget error"}));
  EXPECT_EQ(runtime.capture("stage"), "[graph] learn: stage failed");
  EXPECT_EQ(runtime.calls, (Calls{"begin", "stage", "end", "leave pool", "forget error"}));
  // what a stage does that no graph can hold shows here
  EXPECT_EQ(runtime.capture("end"), "[graph] learn: end failed");
  EXPECT_EQ(runtime.calls, (Calls{"begin", "stage", "end", "leave pool", "forget error"}));
}

TEST(Capture, tells_what_failed_first_and_not_what_failed_on_the_way_out) {
  Runtime runtime;
  const std::string error = error_of([&] {
    capture_with({.begin = [] {},
                  .end = [] { throw std::runtime_error("the capture was invalidated"); },
                  .leave_pool = [] { throw std::runtime_error("not recording to the pool"); },
                  .forget_error = [&] { runtime.call("forget error"); }},
                 "learn", [] { throw Error("[env] a stage that waits"); });
  });
  EXPECT_EQ(error, "[graph] learn: [env] a stage that waits");
  EXPECT_EQ(runtime.calls, Calls{"forget error"});
}

}  // namespace
}  // namespace maglev
