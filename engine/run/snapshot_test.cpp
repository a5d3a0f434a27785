#include "engine/run/snapshot.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "engine/host/cpu_cache.h"
#include "engine/host/machine.h"

namespace maglev {
namespace {

TEST(StateSnapshot, leaves_nothing_in_the_cache_of_tensors) {
  claim_threads();
  auto kept = at::arange(1 << 20, at::kFloat), turned = at::arange(6, at::kInt).view({2, 3}).t();
  const auto visit = [&](StateVisitor& v) {
    v.tensor("kept", kept);
    v.tensor("turned", turned);
  };
  const at::Tensor before = kept.clone(), turned_before = turned.clone();
  release_cpu_cache();
  const int64_t held = cpu_cache_bytes();
  {
    const StateSnapshot saved(visit);
    kept.zero_(), turned.zero_();
    saved.restore(visit);
  }
  EXPECT_EQ(cpu_cache_bytes(), held);
  EXPECT_TRUE(at::equal(kept, before));
  EXPECT_TRUE(at::equal(turned, turned_before));
}

}  // namespace
}  // namespace maglev
