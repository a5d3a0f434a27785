#include "engine/algo/metrics.h"

#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

namespace maglev {
namespace {

const float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Metrics, figures_added_from_the_host_count_as_tensors_do) {
  Metrics tensors(at::kCPU), raw(at::kCPU);
  for (Metrics* m : {&tensors, &raw}) EXPECT_EQ(m->declare({"a", "b", "c"}), 0);
  const float first[] = {1.f, -2.5f}, second[] = {4.f, kNan};
  tensors.add(1, at::tensor({1.f, -2.5f}), at::tensor(2.f));
  tensors.add(1, at::tensor({4.f, kNan}), at::tensor(0.f));
  raw.add(1, first, 2.f);
  raw.add(1, second, 0.f);
  EXPECT_TRUE(at::equal(tensors.sums(), raw.sums()));
  const auto means = raw.take();
  EXPECT_TRUE(std::isnan(means[0].second));
  EXPECT_EQ(means[1].second, 1);
  EXPECT_EQ(means[2], std::pair(std::string("c"), -2.5));
  EXPECT_TRUE(std::isnan(raw.take()[1].second)) << "taken is cleared";
}

TEST(Metrics, a_copy_keeps_what_was_there_before_they_were_cleared) {
  Metrics metrics(at::kCPU);
  metrics.declare({"a"});
  const float one[] = {3.f};
  metrics.add(0, one, 1.f);
  const auto copy = metrics.sums().clone();
  metrics.clear();
  EXPECT_EQ(metrics.means(copy.data_ptr<float>())[0].second, 3);
  EXPECT_EQ(metrics.sums().abs().sum().item<float>(), 0);
}

}  // namespace
}  // namespace maglev
