#include "verbs/eval/kept.h"

#include <gtest/gtest.h>

namespace maglev::verbs::eval {
namespace {

nlohmann::json asked(int episodes, double mean, const char* setting = nullptr) {
  nlohmann::json report{{"run", "runs/a"},
                        {"checkpoint", "runs/a/checkpoints/step_000000000512"},
                        {"asked", {{"episodes", episodes}}},
                        {"results", {{{"return_mean", mean}}}}};
  if (setting) report["settings"] = {setting};
  return report;
}

TEST(KeptEvaluations, a_look_at_something_else_leaves_what_was_found_out_before) {
  const auto judged = asked(20, 1), look = asked(2, 9, "env.faithful=true"), again = asked(20, 3);
  const auto second = with_earlier(look, judged.dump());
  EXPECT_EQ(second["results"], look["results"]);
  ASSERT_EQ(second["earlier"].size(), 1u);
  EXPECT_EQ(second["earlier"][0], judged);
  // what was asked in the same way is replaced
  const auto third = with_earlier(again, second.dump());
  EXPECT_EQ(third["results"], again["results"]);
  ASSERT_EQ(third["earlier"].size(), 1u);
  EXPECT_EQ(third["earlier"][0], look);
  // and of equal questions nothing grows
  EXPECT_EQ(with_earlier(again, third.dump()), third);
  const auto fourth = with_earlier(asked(5, 5), third.dump());
  EXPECT_EQ(fourth["earlier"], nlohmann::json::array({again, look})) << "the newest first";
}

TEST(KeptEvaluations, text_that_is_no_report_has_none) {
  for (const char* text : {"", "{", "[1]", "{\"run\": 3}"})
    EXPECT_EQ(with_earlier(asked(1, 1), text), asked(1, 1)) << text;
}

}  // namespace
}  // namespace maglev::verbs::eval
