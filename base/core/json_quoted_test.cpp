#include "base/core/json_quoted.h"

#include <gtest/gtest.h>

namespace maglev {
namespace {

TEST(JsonQuoted, is_valid_whatever_the_text_holds) {
  EXPECT_EQ(json_quoted("a \"b\"\\\n\x01"), "\"a \\\"b\\\"\\\\\\n\\u0001\"");
  // no byte of UTF-8 begins so
  EXPECT_EQ(json_quoted("\xff"), "\"\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace maglev
