#include "kernels/dropout/dropout.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "tests/close.h"

namespace maglev {
namespace {

at::Tensor factors(uint64_t first, int64_t stride, float share) {
  auto out = at::empty({12, stride});
  dropout_cpu({.seed = 3,
               .stream = 4,
               .first = first,
               .row_step = 20,
               .features = 12,
               .stride = stride,
               .share = share,
               .factor = out.data_ptr<float>()});
  return out;
}

TEST(Dropout, a_rows_factors_do_not_depend_on_its_panel) {
  const auto whole = factors(40, 64, 0.3f);
  EXPECT_TRUE(close(factors(40 + 16 * 20, 32, 0.3f), whole.narrow(1, 16, 32), 0));
}

TEST(Dropout, keeps_the_mean) {
  const auto x = factors(0, 4096, 0.3f);
  EXPECT_NEAR(x.mean().item<float>(), 1, 0.02);
  EXPECT_NEAR((x == 0).to(at::kFloat).mean().item<float>(), 0.3, 0.02);
  EXPECT_EQ(factors(0, 64, 0).min().item<float>(), 1) << "nothing is below 0";
}

}  // namespace
}  // namespace maglev
