#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <gtest/gtest.h>

#include "kernels/products/rounded_factors_op.h"

namespace maglev {
namespace {

at::Tensor rounded_to_nearest(const at::Tensor& x) { return x.to(at::kBFloat16); }

TEST(RoundedFactors, are_of_the_factors_sizes_as_it_lies) {
  at::manual_seed(3);
  RoundedFactors factors;
  const at::Tensor x = at::randn({5, 19}), turned = x.t(), blocks = at::randn({2, 7, 30});
  EXPECT_TRUE(at::equal(factors.left(x), rounded_to_nearest(x)));
  EXPECT_TRUE(at::equal(factors.left(turned), rounded_to_nearest(turned)));
  EXPECT_EQ(factors.left(turned).stride(0), 1);
  // rows begin at 16 bytes
  EXPECT_EQ(factors.left(x).stride(0) % 8, 0);
  const at::Tensor part = blocks.narrow(2, 3, 20).transpose(1, 2);
  EXPECT_TRUE(at::equal(factors.right(part), rounded_to_nearest(part)));
}

TEST(RoundedFactors, lie_in_the_same_room_each_time_one_for_each_side) {
  RoundedFactors factors;
  const at::Tensor x = at::randn({4, 16}), y = at::randn({3, 16});
  void* room = factors.left(x).data_ptr();
  EXPECT_NE(factors.right(x).data_ptr(), room);
  EXPECT_EQ(factors.left(y).data_ptr(), room);
}

TEST(RoundedFactors, that_are_kept_are_read_as_they_were_rounded_last) {
  RoundedFactors factors;
  at::Tensor all = at::randn({6, 24});
  const at::Tensor flat = factors.keep(all.narrow(0, 2, 2));
  EXPECT_EQ(flat.numel(), all.numel());
  factors.round(flat);
  const at::Tensor before = rounded_to_nearest(all);
  const at::Tensor view = all.narrow(1, 8, 16).t();
  all.narrow(0, 0, 3).add_(1);
  EXPECT_TRUE(at::equal(factors.left(view), before.narrow(1, 8, 16).t()));
  factors.round(all.narrow(0, 0, 3));
  EXPECT_TRUE(at::equal(factors.right(view), rounded_to_nearest(view)));
  // no room is taken for them
  EXPECT_EQ(factors.left(view).data_ptr(), factors.right(view).data_ptr());
}

TEST(RoundedFactors, outlive_the_mode_that_they_were_first_rounded_in) {
  RoundedFactors factors;
  {
    c10::InferenceMode guard;
    factors.left(at::ones({4, 16}));
  }
  EXPECT_TRUE(at::equal(factors.left(at::zeros({4, 16})), at::zeros({4, 16}, at::kBFloat16)));
}

}  // namespace
}  // namespace maglev
