#include "engine/device/precision.h"

#include <cstdlib>
#include <string>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

namespace maglev {
namespace {

const at::Device kGpu(at::kCUDA, 0);

class Switches : public testing::Test {
 protected:
  void SetUp() override { unsetenv("CUBLAS_WORKSPACE_CONFIG"); }
  // other tests of this process compute as torch does by itself
  void TearDown() override {
    apply_precision(Precision::fp32, kGpu, /*deterministic=*/false);
    at::globalContext().setBenchmarkCuDNN(false);
    unsetenv("CUBLAS_WORKSPACE_CONFIG");
  }
};

TEST_F(Switches, of_a_deterministic_run_leave_nothing_to_a_search_or_to_streams) {
  const at::Context& context = at::globalContext();
  apply_precision(Precision::fp32, kGpu, /*deterministic=*/true);
  EXPECT_FALSE(context.benchmarkCuDNN());
  EXPECT_TRUE(context.deterministicCuDNN());
  EXPECT_TRUE(context.deterministicAlgorithms());
  EXPECT_FALSE(context.deterministicAlgorithmsWarnOnly());
  EXPECT_FALSE(context.deterministicFillUninitializedMemory());
  EXPECT_STREQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), ":4096:8");
  // the next run is another
  apply_precision(Precision::fp32, kGpu, /*deterministic=*/false);
  EXPECT_TRUE(context.benchmarkCuDNN());
  EXPECT_FALSE(context.deterministicCuDNN());
  EXPECT_FALSE(context.deterministicAlgorithms());
}

TEST_F(Switches, leave_a_workspace_that_the_user_has_chosen) {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8", 1);
  apply_precision(Precision::fp32, kGpu, /*deterministic=*/true);
  EXPECT_STREQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), ":16:8");
}

TEST_F(Switches, of_a_processor_stay_as_they_are) {
  apply_precision(Precision::bf16, at::kCPU, /*deterministic=*/true);
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
  EXPECT_EQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), nullptr);
}

TEST_F(Switches, allow_tf32_unless_fp32_was_asked_for) {
  for (Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    apply_precision(precision, kGpu, /*deterministic=*/false);
    EXPECT_EQ(at::globalContext().allowTF32CuDNN(), precision != Precision::fp32);
    EXPECT_EQ(at::globalContext().allowTF32CuBLAS(), precision != Precision::fp32);
  }
}

}  // namespace
}  // namespace maglev
