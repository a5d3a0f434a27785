#include "verbs/kernels/parity.h"

#include <cstdio>
#include <cstdlib>
#include <limits>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "base/core/error.h"

namespace maglev::verbs::kernels {
namespace {

KernelCase pair_of(at::Tensor reference, at::Tensor fused, double tolerance) {
  return {.name = "pair",
          .reference = [=](const Tensors&) { return Tensors{reference}; },
          .fused = [=](const Tensors&) { return Tensors{fused}; },
          .tolerance = tolerance};
}

TEST(Parity, equal_bits_use_nothing_of_the_tolerance) {
  const auto parity = check_parity(pair_of(at::ones({3}), at::ones({3}), 0), 1);
  EXPECT_TRUE(parity.ok);
  EXPECT_EQ(parity.share, 0);
  EXPECT_EQ(parity.different, 0);
  EXPECT_EQ(parity.elements, 3);
}

TEST(Parity, the_share_is_that_of_the_worst_element) {
  auto fused = at::full({4}, 3.);
  fused[2] += 0.0015;
  const auto parity = check_parity(pair_of(at::full({4}, 3.), fused, 1e-3), 1);
  EXPECT_TRUE(parity.ok);
  EXPECT_NEAR(parity.share, 0.5, 1e-3);
  EXPECT_EQ(parity.different, 1);
  EXPECT_FALSE(check_parity(pair_of(at::full({4}, 3.), fused, 1e-4), 1).ok);
  EXPECT_TRUE(check_parity(pair_of(at::full({4}, 3.), fused, 1e-4), 10).ok);
}

TEST(Parity, the_last_element_counts_as_much_as_the_first) {
  auto fused = at::zeros({1000, 3});
  fused[999][2] = 1;
  EXPECT_FALSE(check_parity(pair_of(at::zeros({1000, 3}), fused, 1e-3), 1).ok);
}

TEST(Parity, no_tolerance_asks_for_equal_bits) {
  auto fused = at::ones({2});
  fused[1] = std::nextafter(1.f, 2.f);
  EXPECT_FALSE(check_parity(pair_of(at::ones({2}), fused, 0), 1).ok);
  EXPECT_FALSE(check_parity(pair_of(at::ones({2}), fused, 1e-3), 0).ok);
  EXPECT_TRUE(check_parity(pair_of(at::ones({2}), fused, 1e-3), 1).ok);
}

TEST(Parity, nan_equals_only_nan) {
  const auto nan = at::full({2}, std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(check_parity(pair_of(nan, nan.clone(), 1e-3), 1).ok);
  EXPECT_FALSE(check_parity(pair_of(nan, at::ones({2}), 1e-3), 1).ok);
  EXPECT_FALSE(check_parity(pair_of(at::ones({2}), nan, 1e-3), 1).ok);
  const auto infinite = at::full({2}, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(check_parity(pair_of(infinite, infinite.clone(), 1e-3), 1).ok);
  EXPECT_FALSE(check_parity(pair_of(infinite, -infinite, 1e-3), 1).ok);
}

TEST(Parity, another_shape_or_dtype_is_named) {
  const auto shape = check_parity(pair_of(at::ones({2, 3}), at::ones({3, 2}), 1), 1);
  EXPECT_FALSE(shape.ok);
  EXPECT_EQ(shape.problem, "output 0 must be Float [2, 3], got Float [3, 2]");
  EXPECT_EQ(check_parity(pair_of(at::ones({2}), at::ones({2}, at::kDouble), 1), 1).problem,
            "output 0 must be Float [2], got Double [2]");
}

TEST(Parity, one_failed_case_is_named_and_makes_the_status_1) {
  const auto right =
      +[](at::Device) { return std::vector{pair_of(at::ones({2}), at::ones({2}), 0)}; };
  const auto wrong = +[](at::Device) {
    KernelCase off = pair_of(at::ones({2}), at::full({2}, 1.5), 0.1);
    off.name = "off";
    return std::vector{off};
  };
  testing::internal::CaptureStdout();
  EXPECT_EQ(print_parity({{"right", "", right}, {"wrong", "", wrong}}, {at::kCPU}), 1);
  std::fflush(stdout);
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_NE(text.find("wrong   cpu     off   FAILED  500% of tolerance 0.1, 2 of 2 differ in bits"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("2 cases, 1 failed"), std::string::npos) << text;
  EXPECT_NE(text.find("right   cpu     pair  ok      equal bit for bit"), std::string::npos)
      << text;
}

TEST(Parity, the_scale_comes_from_the_environment) {
  unsetenv("MAGLEV_TOL_SCALE");
  EXPECT_EQ(tolerance_scale(), 1);
  setenv("MAGLEV_TOL_SCALE", "0", 1);
  EXPECT_EQ(tolerance_scale(), 0);
  for (const char* bad : {"much", "-1", "1x", "inf", "nan"}) {
    setenv("MAGLEV_TOL_SCALE", bad, 1);
    EXPECT_THROW(tolerance_scale(), Error) << bad;
  }
  unsetenv("MAGLEV_TOL_SCALE");
}

}  // namespace
}  // namespace maglev::verbs::kernels
