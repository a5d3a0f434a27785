#include "base/core/philox.h"

#include <gtest/gtest.h>

namespace maglev {
namespace {

// known answers of Random123's philox4x32-10 for the all-zero and all-one inputs
TEST(Philox, equals_the_published_known_answers) {
  PhiloxBlock zero = philox(0, 0, 0);
  EXPECT_EQ(zero.word[0], 0x6627e8d5u);
  EXPECT_EQ(zero.word[1], 0xe169c58du);
  EXPECT_EQ(zero.word[2], 0xbc57ac4cu);
  EXPECT_EQ(zero.word[3], 0x9b00dbd8u);
  PhiloxBlock ones = philox(~0ull, ~0ull, ~0ull);
  EXPECT_EQ(ones.word[0], 0x408f276du);
  EXPECT_EQ(ones.word[1], 0x41c83b0eu);
  EXPECT_EQ(ones.word[2], 0xa20bc7c6u);
  EXPECT_EQ(ones.word[3], 0x6d5451fdu);
}

TEST(Philox, a_cursor_made_again_at_its_counter_continues) {
  Rng first(7, 3, 0);
  for (int i = 0; i < 8; ++i) first.bits();
  Rng second(7, 3, first.counter());
  EXPECT_EQ(first.bits(), second.bits());
}

TEST(Philox, below_covers_its_range_evenly) {
  Rng rng(1, 1, 0);
  int counts[10] = {};
  for (int i = 0; i < 100000; ++i) counts[rng.below(10)]++;
  for (int c : counts) EXPECT_NEAR(c, 10000, 500);
}

}  // namespace
}  // namespace maglev
