#include "verbs/bench/arms.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "engine/algo/experiment.h"
#include "tests/errors.h"
#include "verbs/bench/history.h"

namespace maglev::verbs::bench {
namespace {

// a run of rounds that took so many seconds a step
Arm measured(std::vector<std::string> changes, const std::vector<double>& seconds) {
  Arm arm{.changes = std::move(changes)};
  for (const double s : seconds)
    arm.rounds.push_back({.step = {.suite = "run", .name = "ppo_cartpole", .seconds = {s}},
                          .steps_per_iteration = 256,
                          // the last round is not the one that took most
                          .peak_bytes = int64_t(seconds.size() - arm.rounds.size()) << 20});
  return arm;
}

Arm settled(const std::string& change, const std::vector<Arm>& before,
            std::vector<std::string>* lines = nullptr) {
  Experiment experiment("ppo", "cartpole");
  experiment.table().override_with("device=cpu");
  Arm arm;
  if (!change.empty()) arm.changes = changes_of(change);
  for (const std::string& one : arm.changes) experiment.table().override_with(one);
  auto told = settle_arm(arm, experiment, before);
  if (lines) *lines = std::move(told);
  return arm;
}

TEST(BenchArms, changes_are_words_of_name_and_value) {
  EXPECT_EQ(changes_of(" ppo.epochs=2   threads=1 "),
            (std::vector<std::string>{"ppo.epochs=2", "threads=1"}));
  for (const char* bad : {"", "  ", "ppo.epochs", "ppo.network.hidden=[64, 64]", "train.steps=5",
                          "train.price=2", "trace.every=8"})
    EXPECT_THROW(changes_of(bad), Error) << bad;
}

TEST(BenchArms, one_that_is_what_another_is_is_refused) {
  std::vector<Arm> arms;
  arms.push_back(settled("", arms));
  const std::string epochs = Experiment("ppo", "cartpole").table().find("ppo.epochs")->plain();
  EXPECT_TRUE(contains(error_of([&] { settled("ppo.epochs=" + epochs, arms); }),
                       "is what 'as given' is already"));
  arms.push_back(settled("ppo.epochs=17", arms));
  EXPECT_TRUE(contains(error_of([&] { settled("ppo.epochs=17", arms); }),
                       "is what 'ppo.epochs=17' is already"));
}

TEST(BenchArms, one_that_changes_nothing_is_refused_and_told_beside_what_does) {
  std::vector<Arm> arms;
  arms.push_back(settled("", arms));
  EXPECT_TRUE(contains(error_of([&] { settled("train.rollout_memory=pinned", arms); }),
                       "the run is on a processor"));
  std::vector<std::string> lines;
  settled("train.rollout_memory=pinned ppo.epochs=17", arms, &lines);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(contains(lines[0], "changes nothing here: the run is on a processor")) << lines[0];
}

TEST(BenchArms, are_compared_and_judged_round_by_round) {
  // the machine became half as fast meanwhile: rounds side by side know
  const Arm first = measured({}, {1, 1.2, 1.4, 1.6, 1.8, 2}),
            slower = measured({"a=1"}, {1.25, 1.5, 1.75, 2, 2.3, 2.5});
  const ArmComparison found = beside(slower, first, 0.05);
  EXPECT_EQ(found.ratios.size(), 6u);
  EXPECT_NEAR(found.ratio, 0.8, 1e-9);
  EXPECT_NEAR(found.interval.low, 1.8 / 2.3, 1e-9);
  EXPECT_EQ(found.verdict, Verdict::slower);
  EXPECT_EQ(beside(first, slower, 0.05).verdict, Verdict::faster);
  // by less than the threshold, or not in every round
  EXPECT_EQ(beside(slower, first, 0.5).verdict, Verdict::same);
  const Arm once = measured({"a=1"}, {1.25, 1.5, 1.75, 2, 1.7, 2.5});
  EXPECT_EQ(beside(once, first, 0.05).verdict, Verdict::same);
}

TEST(BenchArms, too_few_rounds_judge_nothing) {
  const std::vector<Arm> arms = {measured({}, {1, 1, 1}), measured({"a=1"}, {0.5, 0.5, 0.5})};
  EXPECT_EQ(beside(arms[1], arms[0], 0.05).verdict, Verdict::too_few);
  const std::string text = arms_text(arms, 0.05, {});
  EXPECT_TRUE(contains(text, "range") && contains(text, "too few rounds")) << text;
  EXPECT_FALSE(contains(text, "95% interval")) << text;
}

TEST(BenchArms, are_told_with_what_they_take) {
  const std::vector<Arm> arms = {measured({}, std::vector<double>(6, 1e-3)),
                                 measured({"a=1"}, std::vector<double>(6, 5e-4))};
  const std::string text = arms_text(arms, 0.05, {});
  for (const char* part : {"1000", "2000", "256 ms", "128 ms", "6 MiB", "2.000", "faster",
                           "a=1, round by round: 2.000 2.000 2.000", "95% interval"})
    EXPECT_TRUE(contains(text, part)) << part << "\n" << text;
  const auto json = nlohmann::json::parse(arms_json(arms, 0.05, "a machine"));
  EXPECT_EQ(json["arms"][1]["verdict"], "faster");
  EXPECT_EQ(json["arms"][1]["peak_mib"], 6);
  EXPECT_FALSE(json["arms"][0].contains("ratio"));
  EXPECT_FALSE(json["arms"][0].contains("device_peak_mib"));
  const Logged logged{.what = "ppo cartpole",
                      .settings = {"a=1"},
                      .note = "",
                      .machine = "a machine",
                      .step = summary_of(arms[1].step()),
                      .run = arms[1].speed()};
  EXPECT_EQ(nlohmann::json::parse(log_line(logged))["peak_mib"], json["arms"][1]["peak_mib"]);
}

TEST(BenchArms, figures_come_back_from_their_line) {
  const RunSpeed speed{.step = {.suite = "run", .name = "ppo_cartpole", .seconds = {1e-6}},
                       .warmup_s = 0.5,
                       .steps_per_iteration = 256,
                       .peak_bytes = 1 << 20,
                       .device_peak_bytes = 7,
                       .device = "cpu"};
  const RunSpeed back = speed_of_line(line_of(speed));
  EXPECT_EQ(back.step.seconds, speed.step.seconds);
  EXPECT_EQ(back.steps_per_iteration, 256);
  EXPECT_EQ(back.peak_bytes, 1 << 20);
  EXPECT_EQ(back.device_peak_bytes, 7);
  for (const char* bad : {"", "maglev: no", "{}"}) EXPECT_THROW(speed_of_line(bad), Error) << bad;
}

TEST(BenchHistory, a_line_has_what_was_measured_and_what_was_before) {
  const TimingSummary step{.median = 1e-3, .interval = {8e-4, 2e-3}};
  Logged logged{.what = "ppo cartpole",
                .settings = {"threads=1"},
                .note = "",
                .machine = "a machine",
                .step = step,
                .run = {.steps_per_iteration = 100, .peak_bytes = 1 << 20}};
  const std::string text = log_line(logged);
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  auto line = nlohmann::json::parse(text);
  EXPECT_EQ(line["date"].get<std::string>().size(), std::string("2026-11-29T01:14:16Z").size());
  EXPECT_DOUBLE_EQ(line["steps_per_second"], 1000);
  EXPECT_DOUBLE_EQ(line["interval"][0], 500);
  EXPECT_DOUBLE_EQ(line["seconds_per_iteration"], 0.1);
  EXPECT_FALSE(line.contains("ratio") || line.contains("note"));
  logged.note = "two \"lines\"\n";
  logged.before =
      Reference{.what = "old.json", .step = step, .ratio = 1.5, .verdict = Verdict::faster};
  const std::string second = log_line(logged);
  EXPECT_EQ(second.find('\n'), second.size() - 1);
  line = nlohmann::json::parse(second);
  EXPECT_EQ(line["ratio"], 1.5);
  EXPECT_EQ(line["verdict"], "faster");
  EXPECT_EQ(line["before"]["what"], "old.json");
  logged.step.is_range = true;
  line = nlohmann::json::parse(log_line(logged));
  EXPECT_TRUE(line.contains("range") && !line.contains("interval"));
  EXPECT_TRUE(line["before"].contains("interval"));
}

}  // namespace
}  // namespace maglev::verbs::bench
