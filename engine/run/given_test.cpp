#include "engine/run/given.h"

#include <gtest/gtest.h>

namespace maglev {
namespace {

using Lines = std::vector<std::string>;

TEST(Given, what_is_given_later_stands_behind_what_was_given_first) {
  const std::string begun = "ppo.lr=0.1\ntrain.steps=100\n";
  EXPECT_EQ(given_by_command(begun), (Lines{"ppo.lr=0.1", "train.steps=100"}));
  const std::string longer = with_resume(begun, "at step 100", {"train.steps=200", "threads=2"});
  EXPECT_EQ(longer, begun + "# resumed at step 100, with:\ntrain.steps=200\nthreads=2\n");
  // a job that is started again asks for what it began, which is no change
  EXPECT_EQ(given_by_command(longer), given_by_command(begun));
  EXPECT_EQ(with_command(longer, "at step 200", begun), longer);
  EXPECT_EQ(with_resume(longer, "at step 200", {}), longer);
  const std::string other = with_command(longer, "at step 200", "ppo.lr=0.2\n");
  EXPECT_EQ(other, longer + "# started again at step 200, with:\nppo.lr=0.2\n");
  EXPECT_EQ(given_by_command(other), Lines{"ppo.lr=0.2"});
  // and back
  EXPECT_EQ(given_by_command(with_command(other, "at step 300", begun)), given_by_command(begun));
}

TEST(Given, nothing_that_was_given_is_an_account_too) {
  EXPECT_EQ(given_by_command(""), Lines{});
  EXPECT_EQ(with_command("", "at step 1", ""), "");
  EXPECT_EQ(given_by_command(with_resume("", "at step 1", {"a=1"})), Lines{});
}

}  // namespace
}  // namespace maglev
