#include "verbs/arguments.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "base/core/file.h"
#include "tests/errors.h"
#include "tests/folder.h"

namespace maglev {
namespace {

using Words = std::vector<std::string>;

const VerbEntry kVerb{.name = "train",
                      .summary = "train an agent",
                      .usage = "train <algorithm> <environment> [setting=value ...] [--out DIR]",
                      .run = nullptr};

Grammar grammar() {
  return {.flags = {{"--out", "DIR", "run folder"},
                    {"--json", "", "as JSON"},
                    {"--episodes", "N", "episodes"},
                    {"--rate", "X", "learning rate"},
                    {"--overwrite", "", "replace what is there"}},
          .least = 1,
          .most = 2,
          .names = "<algorithm> <environment>",
          .settings = true};
}

Arguments parse(const std::vector<std::string>& words) { return {kVerb, words, grammar()}; }

std::string error_of(const std::vector<std::string>& words) {
  try {
    parse(words);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Arguments, flags_words_and_settings_may_come_in_any_order) {
  auto a = parse({"ppo", "--out", "runs/a b", "ppo.lr=1e-3", "cartpole", "--json", "seed=-1"});
  EXPECT_EQ(a.positional(), (Words{"ppo", "cartpole"}));
  EXPECT_EQ(a.settings(), (Words{"ppo.lr=1e-3", "seed=-1"}));
  EXPECT_EQ(a.value("--out"), "runs/a b");
  EXPECT_TRUE(a.has("--json"));
  EXPECT_FALSE(a.has("--episodes"));
  EXPECT_FALSE(a.help());
}

TEST(Arguments, a_value_may_follow_an_equals_sign_and_the_last_one_counts) {
  auto a = parse({"ppo", "--out=one", "--out=two=2"});
  EXPECT_EQ(a.value("--out"), "two=2");
}

TEST(Arguments, a_word_that_is_given_as_a_setting_is_told_where_it_is_missed) {
  for (const char* word : {"env=cartpole", "algo=ppo", "environment=cartpole"}) {
    const std::string error = error_of({word, "seed=1"}), name(word, std::string(word).find('='));
    EXPECT_TRUE(
        error.starts_with("[train] " + name + " is a word of its own: maglev train ppo cartpole"))
        << error;
  }
  EXPECT_EQ(parse({"ppo", "env=cartpole"}).positional(), Words{"ppo"});
  EXPECT_TRUE(contains(error_of({"seed=1", "env.policy=2"}), "expected <algorithm>"));
}

TEST(Arguments, nothing_is_a_flag_after_two_dashes) {
  auto a = parse({"ppo", "--", "--out"});
  EXPECT_EQ(a.positional(), (Words{"ppo", "--out"}));
}

TEST(Arguments, an_unknown_flag_is_answered_with_a_near_one) {
  EXPECT_EQ(error_of({"ppo", "--ouT", "x"}), "[train] unknown flag '--ouT'; did you mean --out?");
  EXPECT_TRUE(
      contains(error_of({"ppo", "--frobnicate"}), "known: --help, --out, --json, --episodes"));
}

TEST(Arguments, a_missing_or_needless_value_is_an_error) {
  EXPECT_EQ(error_of({"ppo", "--out"}), "[train] --out needs a value: --out DIR");
  EXPECT_EQ(error_of({"ppo", "--out", "--json"}), "[train] --out needs a value: --out DIR");
  EXPECT_EQ(error_of({"ppo", "--json=yes"}), "[train] --json takes no value, got 'yes'");
}

TEST(Arguments, too_few_and_too_many_words_show_the_usage) {
  EXPECT_TRUE(contains(error_of({}),
                       "expected <algorithm> <environment>, got 0 words; usage: maglev train"));
  EXPECT_TRUE(contains(error_of({"a", "b", "c"}), "did not expect 'c'; usage: maglev train"));
}

TEST(Arguments, whole_numbers_are_checked) {
  EXPECT_EQ(parse({"ppo", "--episodes", "12"}).integer("--episodes", 1, 100), 12);
  EXPECT_EQ(parse({"ppo"}).integer("--episodes", 1, 100), std::nullopt);
  for (const char* bad : {"0", "101", "1.5", "ten", "", "-3"})
    EXPECT_THROW(parse({"ppo", "--episodes", bad}).integer("--episodes", 1, 100), Error) << bad;
}

TEST(Arguments, a_number_is_one_from_its_range_or_answered) {
  EXPECT_EQ(parse({"ppo", "--rate", "2.5e-1"}).number("--rate", 0, 1), 0.25);
  EXPECT_EQ(parse({"ppo"}).number("--rate", 0, 1), std::nullopt);
  for (const char* bad : {"-0.1", "1.1", "half", "0.5x", "nan", "inf"})
    EXPECT_EQ(maglev::error_of([&] {
                parse({"ppo", "--rate", bad}).number("--rate", 0, 1);
              }),
              "[train] --rate must be a number from 0 to 1, got '" + std::string(bad) + "'");
}

TEST(Arguments, a_bound_that_is_left_out_of_a_range_is_refused_and_said) {
  EXPECT_EQ(parse({"ppo", "--rate", "1"}).number_above("--rate", 0, 1), 1);
  EXPECT_EQ(parse({"ppo", "--rate", "1e-300"}).number_above("--rate", 0, 1), 1e-300);
  for (const char* bad : {"0", "-1", "1.1", "nan"})
    EXPECT_EQ(maglev::error_of([&] {
                parse({"ppo", "--rate", bad}).number_above("--rate", 0, 1, "; 0 learns nothing");
              }),
              "[train] --rate must be a number above 0 and at most 1, got '" + std::string(bad) +
                  "'; 0 learns nothing");
  EXPECT_EQ(parse({"ppo", "--rate", "-1e9"}).number("--rate", -INFINITY, INFINITY), -1e9);
  EXPECT_EQ(maglev::error_of([&] {
              parse({"ppo", "--rate", "inf"}).number("--rate", -INFINITY, INFINITY);
            }),
            "[train] --rate must be a number, got 'inf'");
}

TEST(Arguments, an_output_is_no_folder_and_is_replaced_only_where_so_asked) {
  const std::string file = test_folder() + "/arguments_output";
  const auto output = [&](const std::string& path, const char* last) {
    return parse({"ppo", "--out", path, last}).output("--out");
  };
  EXPECT_EQ(output(file, "--json"), file);
  write_atomic(file, "kept");
  EXPECT_EQ(maglev::error_of([&] { output(file, "--json"); }),
            "[train] " + file + " is there already; name another, or replace it by --overwrite");
  EXPECT_EQ(output(file, "--overwrite"), file);
  EXPECT_EQ(maglev::error_of([&] { output(test_folder(), "--overwrite"); }),
            "[train] " + test_folder() + " is a folder; name a file for --out");
  EXPECT_EQ(parse({"ppo"}).output("--out"), std::nullopt);
}

enum class Colour { red, green };
constexpr auto names_of(Colour) { return std::array{"red", "green"}; }

TEST(Arguments, a_choice_is_a_member_of_its_enum_or_answered_with_near_names) {
  EXPECT_EQ(parse({"ppo", "--out", "green"}).choice<Colour>("--out"), Colour::green);
  EXPECT_EQ(parse({"ppo"}).choice<Colour>("--out"), std::nullopt);
  try {
    parse({"ppo", "--out", "greenn"}).choice<Colour>("--out");
    FAIL() << "took it";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "[train] unknown choice for --out 'greenn'; did you mean green?");
  }
}

TEST(Arguments, help_counts_no_words_and_lists_every_flag) {
  auto a = parse({"--help"});
  ASSERT_TRUE(a.help());
  for (const char* part :
       {"train an agent", "usage: maglev train <algorithm>", "--out DIR", "run folder", "--json"})
    EXPECT_TRUE(contains(a.help_text(), part));
}

TEST(Arguments, a_word_with_an_equals_sign_is_positional_where_there_are_no_settings) {
  Grammar plain = grammar();
  plain.settings = false;
  Arguments a(kVerb, {"x=1"}, plain);
  EXPECT_EQ(a.positional(), (Words{"x=1"}));
  EXPECT_TRUE(a.settings().empty());
}

TEST(Arguments, of_a_repeated_setting_the_last_counts_and_is_told) {
  const auto a = parse({"ppo", "seed=1", "seeds=3", "seed=2", "seeds=3"});
  EXPECT_EQ(a.settings(), (Words{"seed=2", "seeds=3"}));
  EXPECT_EQ(a.replaced(), Words{"seed=2 replaces seed=1"});
}

TEST(Arguments, an_empty_value_is_none) {
  EXPECT_TRUE(contains(error_of({"ppo", "--out", ""}), "--out needs a value"));
  EXPECT_TRUE(contains(error_of({"ppo", "--out="}), "--out needs a value"));
}

TEST(Arguments, flags_that_are_settings_here_are_answered_with_them) {
  EXPECT_TRUE(contains(error_of({"ppo", "--seed", "3"}), "--seed is the setting seed=<value>"));
  EXPECT_TRUE(contains(error_of({"ppo", "--n-steps=9"}), "<algorithm>.rollout=<value>"));
}

}  // namespace
}  // namespace maglev
