#include "base/web/answer.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/errors.h"

namespace maglev {
namespace {

TEST(WebAnswer, bytes_are_an_address) {
  // RFC 4648, section 10
  const auto digits = [](std::string_view bytes) { return data_address("a/b", bytes).substr(16); };
  EXPECT_EQ(data_address("a/b", ""), "data:a/b;base64,");
  EXPECT_EQ(digits("f"), "Zg==");
  EXPECT_EQ(digits("fo"), "Zm8=");
  EXPECT_EQ(digits("foob"), "Zm9vYg==");
  EXPECT_EQ(digits("foobar"), "Zm9vYmFy");
  EXPECT_EQ(digits(std::string("\xff\xfe\x00", 3)), "//4A");
}

TEST(WebAnswer, numbers_are_read_and_written) {
  std::string json;
  for (double value : {0.5, 1e300 * 1e300, -123.456789}) add_number(json += ' ', value, 4);
  EXPECT_EQ(json, " 0.5 null -123.5");
  HttpRequest request;
  request.query = {{"from", "12"}, {"seed", "x1"}, {"share", "0.25"}};
  EXPECT_EQ(asked_number<int64_t>(request, "from", 3), 12);
  EXPECT_EQ(asked_number<int64_t>(request, "to", 3), 3);
  EXPECT_EQ(asked_number<double>(request, "share", 1), 0.25);
  EXPECT_EQ(error_of([&] { asked_number<int64_t>(request, "seed", 1); }),
            "[web] seed=x1 is no number");
}

}  // namespace
}  // namespace maglev
