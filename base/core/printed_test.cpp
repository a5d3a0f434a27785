#include "base/core/printed.h"

#include <string>

#include <gtest/gtest.h>

namespace maglev {
namespace {

TEST(Printed, is_what_printf_writes_whatever_its_length) {
  EXPECT_EQ(printed("%.2f s on %d threads", 1.234, 4), "1.23 s on 4 threads");
  EXPECT_EQ(printed("nothing"), "nothing");
  const std::string name(1000, 'x');
  EXPECT_EQ(printed("%s.", name.c_str()), name + ".");
}

TEST(Printed, counts_have_a_comma_before_each_three_digits_and_none_in_front) {
  EXPECT_EQ(by_thousands(0), "0");
  EXPECT_EQ(by_thousands(999), "999");
  EXPECT_EQ(by_thousands(1'000), "1,000");
  EXPECT_EQ(by_thousands(1'234'567), "1,234,567");
  EXPECT_EQ(by_thousands(-123'456), "-123,456");
  EXPECT_EQ(by_thousands(INT64_MIN), "-9,223,372,036,854,775,808");
}

TEST(Printed, one_thing_is_no_several) {
  EXPECT_EQ(counted(1, "step"), "1 step");
  EXPECT_EQ(counted(0, "step"), "0 steps");
  EXPECT_EQ(counted(2, "query", "queries"), "2 queries");
  EXPECT_EQ(counted(1, "query", "queries"), "1 query");
}

}  // namespace
}  // namespace maglev
