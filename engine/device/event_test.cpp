#include "engine/device/event.h"

#include <utility>

#include <ATen/ATen.h>
#include <torch/cuda.h>

#include <gtest/gtest.h>

#include "engine/device/device.h"
#include "tests/errors.h"

namespace maglev {
namespace {

constexpr int kSuccess = 0, kInvalid = 1, kNotYet = 600;

// a runtime as CUDA's: it keeps the last error until somebody asks for it
int last_error = kSuccess;
int query_that_returns(int error) { return last_error = error; }
int take_last_error() { return std::exchange(last_error, kSuccess); }

TEST(DeviceEvent, that_has_not_passed_leaves_no_error_for_the_next_launch) {
  EXPECT_FALSE(has_passed(query_that_returns(kNotYet), take_last_error, "copy"));
  // what a launcher returns
  EXPECT_EQ(take_last_error(), kSuccess);
  EXPECT_TRUE(has_passed(query_that_returns(kSuccess), take_last_error, "copy"));
}

TEST(DeviceEvent, that_cannot_be_asked_is_an_error_and_not_one_that_has_yet_to_pass) {
  const std::string error =
      error_of([] { has_passed(query_that_returns(kInvalid), take_last_error, "copy"); });
  EXPECT_TRUE(contains(error, "[copy] the device refused")) << error;
}

TEST(DeviceEvent, on_a_gpu_is_asked_before_it_has_passed_and_launches_go_on) {
  if (!kDeviceCode || !torch::cuda::is_available())
    GTEST_SKIP() << "no CUDA device on this machine, or no device code in this build";
  auto x = at::ones({4096, 4096}, at::kCUDA);
  DeviceEvent begin(/*timed=*/true), end(/*timed=*/true);
  begin.record();
  for (int i = 0; i < 50; ++i) x = at::mm(x, x).mul_(0);
  end.record();
  EXPECT_FALSE(end.passed()) << "50 large products are done at once";
  EXPECT_FALSE(end.seconds_since(begin));
  EXPECT_NO_THROW(at::zeros({3}, at::kCUDA).add_(1));
  end.wait();
  EXPECT_TRUE(end.passed());
  EXPECT_GT(end.seconds_since(begin).value_or(0), 0);
}

}  // namespace
}  // namespace maglev
