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

}  // namespace
}  // namespace maglev
