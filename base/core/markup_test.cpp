#include "base/core/markup.h"

#include <gtest/gtest.h>

namespace maglev {
namespace {

TEST(Markup, text_is_read_as_it_was_and_opens_no_element) {
  EXPECT_EQ(escaped("a <b> & \"c\""), "a &lt;b&gt; &amp; &quot;c&quot;");
  EXPECT_EQ(escaped("uncle(ann, bob)"), "uncle(ann, bob)");
  EXPECT_EQ(escaped(""), "");
}

}  // namespace
}  // namespace maglev
