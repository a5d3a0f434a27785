#include "engine/run/run_settings.h"

#include <gtest/gtest.h>

#include "tests/errors.h"

namespace maglev {
namespace {

TEST(RunSettings, are_texts_by_dotted_names_in_their_order) {
  const NamedSettings expected{
      {"seed", "1"}, {"ppo.lr", "1e-3"}, {"ppo.network.hidden", "[64, 64]"}, {"env.data", ""}};
  EXPECT_EQ(named_settings("seed: 1\nppo:\n  lr: 1e-3\n  network:\n    hidden: [64, 64]\n"
                           "env:\n  data: \"\"\n"),
            expected);
  EXPECT_TRUE(named_settings("").empty());
  EXPECT_TRUE(contains(error_of([] { named_settings("a: [1"); }), "config.yaml cannot be read"));
}

}  // namespace
}  // namespace maglev
