#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/core/file.h"
#include "base/datalog/dataset.h"
#include "base/datalog/rules.h"
#include "tests/errors.h"
#include "tests/folder.h"
#include "verbs/verb.h"

namespace maglev::verbs::kg {

VerbEntry entry();

namespace {

std::string output_of(const std::vector<std::string>& words) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(entry().run(words), 0);
  std::fflush(stdout);
  return testing::internal::GetCapturedStdout();
}

TEST(Kg, stats_say_what_a_graph_is_like) {
  const std::string text = output_of({"stats", "countries_s1"});
  EXPECT_TRUE(contains(text, "countries_s1: 271 constants, 4 predicates, 1120 facts, 1 rule of"));
  EXPECT_TRUE(contains(text, "24 (100.0 %)"));
  EXPECT_TRUE(contains(text, "  2: 24\n"));
  const auto report = nlohmann::json::parse(output_of({"stats", "countries_s3", "--json"}));
  EXPECT_EQ(report["splits"]["test"]["by_one_rule"], 0);
  EXPECT_EQ(report["splits"]["test"]["depths"]["4"], 24);
  EXPECT_EQ(report["by_predicate"]["locatedInSR"]["facts"], 22);
}

TEST(Kg, what_is_made_is_read_again_and_not_overwritten) {
  const std::string folder = test_folder() + "/kg";
  output_of({"make", "countries_s2", "--out", folder, "--seed", "4"});
  EXPECT_EQ(datalog::open_dataset(folder).train, datalog::make_dataset("countries_s2", 4).train);
  EXPECT_TRUE(contains(error_of([&] { entry().run({"make", "countries_s2", "--out", folder}); }),
                       "--overwrite"));
  output_of({"make", "countries_s2", "--out", folder, "--overwrite"});
  EXPECT_TRUE(contains(error_of([] { entry().run({"make", "family"}); }), "--out DIR is missing"));
}

TEST(Kg, a_runs_folder_is_not_made_a_graph) {
  const std::string folder = test_folder() + "/run";
  std::filesystem::create_directories(folder);
  write_atomic(folder + "/run.json", "{}");
  EXPECT_TRUE(contains(
      error_of([&] { entry().run({"make", "countries_s2", "--out", folder, "--overwrite"}); }),
      "holds a run"));
  EXPECT_FALSE(path_exists(folder + "/train.txt"));
}

TEST(Kg, facts_that_bear_out_no_rule_leave_no_file) {
  const std::string file = test_folder() + "/none.txt";
  const std::string error = error_of(
      [&] { entry().run({"mine", "countries_s1", "--support", "1000000", "--out", file}); });
  EXPECT_TRUE(contains(error, "bears out no rule")) << error;
  EXPECT_TRUE(contains(error, "--support")) << error;
  EXPECT_FALSE(path_exists(file));
}

TEST(Kg, mined_rules_are_read_again) {
  const std::string file = test_folder() + "/rules.txt";
  EXPECT_TRUE(
      contains(output_of({"mine", "family", "--per-head", "3", "--out", file}), "36 rules"));
  datalog::Program program;
  EXPECT_EQ(datalog::read_rules(file, program).places.size(), 36u);
  EXPECT_TRUE(contains(output_of({"mine", "family", "--per-head", "3"}), "36 rules"));
  EXPECT_TRUE(contains(error_of([&] { entry().run({"mine", "family", "--out", file}); }),
                       "is there already"));
  EXPECT_TRUE(contains(error_of([] { entry().run({"mine", "family", "--confidence", "2"}); }),
                       "must be a number from 0 to 1, got '2'"));
}

TEST(Kg, an_unknown_command_is_answered_with_a_near_one) {
  EXPECT_EQ(error_of([] { entry().run({"stat", "family"}); }),
            "[kg] unknown command 'stat'; did you mean stats?");
  EXPECT_TRUE(contains(output_of({"--help"}), "maglev kg mine <data>"));
}

}  // namespace
}  // namespace maglev::verbs::kg
