#include "verbs/status_line.h"

#include <gtest/gtest.h>

namespace maglev::verbs {
namespace {

TEST(CountLine, says_how_far_how_fast_and_how_long) {
  EXPECT_EQ(count_line("proving", 12'800, 1'140'000, 8),
            "proving: 12.8k of 1.14M, 1,600/s, 11:44 left");
  EXPECT_EQ(count_line("proving", 60, 60, 2), "proving: 60 of 60, 30/s, 0:00 left");
}

}  // namespace
}  // namespace maglev::verbs
