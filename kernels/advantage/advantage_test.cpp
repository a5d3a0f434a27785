#include "kernels/advantage/advantage.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace maglev {
namespace {

AdvantageStatistics statistics(const AdvantageArgs& args) {
  std::vector<AdvantagePartial> partial;
  for (int64_t c = 0; c < advantage_chunks(args.count); ++c)
    partial.push_back(advantage_partial(args, c));
  return advantage_finish(advantage_join(partial.data(), int64_t(partial.size())));
}

TEST(Advantage, equals_a_computation_by_hand) {
  const std::vector<float> advantage{1, 99, 2, 6}, valid{1, 0, 1, 1};
  auto s = statistics({.advantage = advantage.data(), .valid = valid.data(), .count = 4});
  EXPECT_FLOAT_EQ(s.mean, 3.f);
  EXPECT_FLOAT_EQ(s.scale, 1 / std::sqrt(7.f));  // (4 + 1 + 9) / (3 - 1)
  EXPECT_FLOAT_EQ(s.inverse_count, 1.f / 3);
}

TEST(Advantage, an_index_picks_the_positions_that_count) {
  const std::vector<float> advantage{1, 99, 2, 6}, valid{1, 1, 1, 1};
  const std::vector<int64_t> index{3, 0, 2};
  auto s = statistics(
      {.advantage = advantage.data(), .valid = valid.data(), .index = index.data(), .count = 3});
  EXPECT_FLOAT_EQ(s.mean, 3.f);
  EXPECT_FLOAT_EQ(s.scale, 1 / std::sqrt(7.f));
}

// nothing valid, one valid row, equal rows: no division by 0 gets out
TEST(Advantage, is_finite_where_there_is_no_spread) {
  const std::vector<float> advantage{5, 5, 5}, none{0, 0, 0}, one{0, 1, 0}, all{1, 1, 1};
  for (const auto* valid : {&none, &one, &all}) {
    auto s = statistics({.advantage = advantage.data(), .valid = valid->data(), .count = 3});
    EXPECT_FLOAT_EQ(s.mean, valid == &none ? 0.f : 5.f);
    EXPECT_FLOAT_EQ(s.scale, 1e8f);
    EXPECT_FLOAT_EQ(s.inverse_count, valid == &all ? 1.f / 3 : valid == &one ? 1.f : 0.f);
  }
}

// the whole is cut in chunks of 1,024: a mean of 1e4 must not drown a deviation of 1e-2
TEST(Advantage, keeps_its_digits_over_many_chunks_and_far_from_0) {
  std::vector<float> advantage(5000), valid(5000, 1.f);
  for (size_t i = 0; i < advantage.size(); ++i)
    advantage[i] = 1e4f + (i % 2 == 0 ? 0.0078125f : -0.0078125f);
  auto s = statistics({.advantage = advantage.data(), .valid = valid.data(), .count = 5000});
  EXPECT_FLOAT_EQ(s.mean, 1e4f);
  EXPECT_NEAR(s.scale * 0.0078125 * std::sqrt(5000. / 4999), 1, 1e-5);
}

}  // namespace
}  // namespace maglev
