#include "engine/host/peaks.h"

#include <gtest/gtest.h>

namespace maglev {
namespace {

TEST(Peaks, figures_are_plausible) {
  const Peaks peaks = measure_peaks(2, 24 << 20, at::kCPU);
  ASSERT_EQ(peaks.products.size(), 4u);
  EXPECT_EQ(peaks.products[1].type, "fp32");
  for (const ProductPeak& product : peaks.products) {
    EXPECT_GT(product.gflops, 0.001) << product.type;
    EXPECT_LT(product.gflops, 1e5) << product.type;
  }
  EXPECT_GT(peaks.multiply_add_gflops, 0.001);
  EXPECT_GT(peaks.gigabytes_s, 0.001);
  EXPECT_LT(peaks.gigabytes_s, 1e4);
  EXPECT_GT(peaks.hand_off_us, 0);
  // a processor has no device's figures
  EXPECT_EQ(peaks.launch_us, 0);
  EXPECT_EQ(peaks.to_device_gigabytes_s, 0);
}

}  // namespace
}  // namespace maglev
