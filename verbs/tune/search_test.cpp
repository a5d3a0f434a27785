#include "verbs/tune/search.h"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "base/core/philox.h"
#include "tests/errors.h"
#include "verbs/tune/report.h"

namespace maglev::verbs::tune {
namespace {

/// A machine that is a formula: each value of each knob is worth a factor, measurements take the
/// time they are asked for and an overhead, and are off by some noise.
struct Machine {
  std::vector<Knob> knobs;
  std::map<std::string, double> worth;  ///< of "name=value"; 1 where it is not told
  double speed = 1000, overhead = 1, noise = 0;
  int64_t memory = 1'000'000;
  std::map<std::string, int64_t> bytes;  ///< besides 1000, of "name=value"
  std::set<std::string> crashes, hangs;  ///< where one of these is set

  double now = 0;
  int64_t measurements = 0;
  std::vector<Candidate> ran;
  int64_t most_bytes = 0;

  static std::string key(const Setting& one) { return one.name + "=" + one.value; }
  double truth(const Candidate& candidate) const {
    double value = speed;
    for (const Setting& one : candidate)
      if (const auto it = worth.find(key(one)); it != worth.end()) value *= it->second;
    return value;
  }
  int64_t held(const Candidate& candidate) const {
    int64_t sum = 1000;
    for (const Setting& one : candidate)
      if (const auto it = bytes.find(key(one)); it != bytes.end()) sum += it->second;
    return sum;
  }
  bool has(const std::set<std::string>& of, const Candidate& candidate) const {
    return std::ranges::any_of(candidate, [&](const Setting& s) { return of.contains(key(s)); });
  }
  World world() {
    return {.plan = [this](const Candidate& c) -> Fit {
              const int64_t sum = held(c);
              return {.bytes = sum, .refused = sum > memory ? "does not fit" : ""};
            },
            .measure = [this](const Candidate& c, double seconds, double limit) -> Sample {
              ran.push_back(c);
              most_bytes = std::max(most_bytes, held(c));
              const double off = noise * (2 * uniform(measurements++) - 1);
              if (has(crashes, c)) return now += overhead, Sample{.failed = "crashed"};
              const double wanted = has(hangs, c) ? 1e9 : overhead + seconds;
              now += std::min(wanted, limit);
              if (wanted > limit) return {.failed = "no figure", .late = true};
              return {.speed = truth(c) * (1 + off)};
            },
            .clock = [this] { return now; },
            .told = {}};
  }
  static double uniform(int64_t n) { return uniform01(philox(7, 1, uint64_t(n)).word[0]); }
  double best() const {
    double value = 0;
    std::vector<Candidate> all = {{}};
    for (const Knob& knob : knobs) {
      const auto before = all;
      for (const std::string& v : knob.values)
        for (Candidate c : before) c.push_back({knob.setting, v}), all.push_back(c);
    }
    for (const Candidate& c : all) value = std::max(value, truth(c));
    return value;
  }
};

Machine usual() {
  return {.knobs = {{"threads", "0", {"1", "2"}},
                    {"collect", "auto", {"lockstep", "blocks"}},
                    {"fused", "true", {"false"}},
                    {"shard", "0", {"64", "256", "1024"}}},
          .worth = {{"threads=1", 1.2},
                    {"collect=lockstep", 0.8},
                    {"collect=blocks", 1},
                    {"fused=false", 0.1},
                    {"shard=64", 0.9},
                    {"shard=256", 1.3},
                    {"shard=1024", 1.25}}};
}

double chosen_speed(const Machine& machine, const Outcome& outcome) {
  return machine.truth(outcome.rows[outcome.chosen].candidate);
}

TEST(tune_search, without_finals_a_row_is_the_median_of_all_that_was_seen_of_it) {
  Row row{.speed = 31, .looks = {62, 61, 31, 64}};
  EXPECT_EQ(row.median(), 61.5);
  row.finals = {50, 52, 51};
  EXPECT_EQ(row.median(), 51);
  EXPECT_EQ(Row{}.median(), 0);
}

TEST(tune_search, finds_what_is_best_within_three_percent) {
  Machine machine = usual();
  const Outcome outcome = search(machine.knobs, 120, machine.world());
  EXPECT_GE(chosen_speed(machine, outcome), (1 - kKnee) * machine.best());
  EXPECT_LE(machine.now, 120);
  // nothing is far off, so that all of what was far slower was tried once
  EXPECT_EQ(std::ranges::count_if(
                machine.ran, [&](const Candidate& c) { return machine.has({"fused=false"}, c); }),
            1);
}

TEST(tune_search, finds_it_on_many_machines_within_many_budgets) {
  for (int64_t seed = 0; seed < 200; ++seed) {
    Machine machine = usual();
    int64_t n = 1000 * seed;
    for (auto& [key, factor] : machine.worth) factor = 0.6 + 0.8 * Machine::uniform(n++);
    machine.overhead = 0.2 + 1.5 * Machine::uniform(n++);
    machine.noise = 0.005;
    machine.measurements = n;
    const double budget = 90 + 200 * Machine::uniform(n++);
    const Outcome outcome = search(machine.knobs, budget, machine.world());
    EXPECT_GE(chosen_speed(machine, outcome), (1 - kKnee - 0.01) * machine.best()) << seed;
    EXPECT_LE(machine.now, budget) << seed;
  }
}

TEST(tune_search, the_budget_is_kept_however_short_and_whatever_hangs) {
  for (const double budget : {3., 5., 12., 40.}) {
    Machine machine = usual();
    machine.hangs = {"shard=256", "threads=2"};
    const Outcome outcome = search(machine.knobs, budget, machine.world());
    EXPECT_LE(machine.now, budget);
    EXPECT_GE(chosen_speed(machine, outcome), machine.speed);
  }
  // one that is too short for a single figure says so
  Machine machine = usual();
  EXPECT_THROW(search(machine.knobs, 1, machine.world()), Error);
  EXPECT_LE(machine.now, 1);
}

TEST(tune_search, where_measurements_take_long_to_begin_the_best_is_still_judged_or_it_is_said) {
  Machine machine = usual();
  machine.overhead = 5;
  const Outcome outcome = search(machine.knobs, 40, machine.world());
  EXPECT_LE(machine.now, 40);
  EXPECT_EQ(outcome.rows[outcome.chosen].candidate, (Candidate{{"threads", "1"}}));
  Machine slower = usual();
  slower.overhead = 11;
  const Outcome kept = search(slower.knobs, 60, slower.world());
  EXPECT_LE(slower.now, 60);
  EXPECT_TRUE(kept.chosen != 0 || kept.rows[0].why.find("--budget") != std::string::npos);
}

TEST(tune_search, the_time_of_finals_goes_to_what_had_none_where_nothing_came_near) {
  Machine machine = usual();
  for (auto& [key, factor] : machine.worth) factor = 0.5;
  machine.worth["threads=2"] = 0.5;
  machine.overhead = 0.5;
  const Outcome outcome = search(machine.knobs, 8, machine.world());
  EXPECT_EQ(std::ranges::count(outcome.rows, State::left_out, &Row::state), 0);
  EXPECT_EQ(outcome.rows[0].why, "kept: nothing came near it");
  // where the last one does, it is judged
  machine.now = 0, machine.worth["shard=1024"] = 1.5;
  const Outcome better = search(machine.knobs, 10, machine.world());
  EXPECT_EQ(better.rows[better.chosen].candidate, (Candidate{{"shard", "1024"}}));
  EXPECT_LE(machine.now, 10);
  // a budget that ends says so of what it left
  machine.now = 0, machine.worth["shard=1024"] = 0.5;
  const Outcome cut = search(machine.knobs, 5, machine.world());
  EXPECT_GT(machine.now, 5 - 0.9);
  EXPECT_GT(std::ranges::count(cut.rows, "no time left (--budget gives more)", &Row::why), 0);
  EXPECT_EQ(cut.rows[0].why, "kept: nothing that was measured came near it");
}

TEST(tune_search, what_came_near_and_was_not_compared_says_so) {
  Machine machine = usual();
  const Outcome cut = search(machine.knobs, 5, machine.world());
  const Candidate best = {{"threads", "1"}};
  const auto near = std::ranges::find(cut.rows, best, &Row::candidate);
  ASSERT_NE(near, cut.rows.end());
  EXPECT_EQ(near->why, "looked at; no time to compare it");
  EXPECT_TRUE(cut.unfinished);
  machine.now = 0;
  const Outcome whole = search(machine.knobs, 2000, machine.world());
  EXPECT_FALSE(whole.unfinished);
  EXPECT_EQ(std::ranges::count(whole.rows, near->why, &Row::why), 0);
}

TEST(tune_search, what_was_too_slow_for_its_time_is_no_crash) {
  Machine machine = usual();
  machine.hangs = {"shard=256"};
  const Outcome outcome = search(machine.knobs, 120, machine.world());
  const auto slow = std::ranges::find(outcome.rows, State::too_slow, &Row::state);
  ASSERT_NE(slow, outcome.rows.end());
  EXPECT_EQ(slow->candidate, (Candidate{{"shard", "256"}}));
  EXPECT_EQ(std::ranges::count(outcome.rows, State::failed, &Row::state), 0);
  EXPECT_TRUE(outcome.unfinished);
  const std::string text = table_text(outcome, {});
  EXPECT_TRUE(contains(text, "too slow to measure in this budget: no figure")) << text;
  EXPECT_TRUE(contains(text, "no smaller than one that was too slow: shard=1024")) << text;
}

TEST(tune_search, speeds_of_the_table_are_as_far_apart_as_their_gains) {
  // the machine was twice as fast for a moment, beside which the settings as they are did better
  Outcome outcome{
      .rows = {
          {.candidate = {}, .state = State::measured, .speed = 1000, .gain = 1, .looks = {1000}},
          {.candidate = {{"shard", "256"}},
           .state = State::measured,
           .speed = 1800,
           .gain = 0.9,
           .looks = {1800}}}};
  const std::string text = table_text(outcome, {});
  EXPECT_TRUE(contains(text, "1000") && contains(text, "900")) << text;
  EXPECT_FALSE(contains(text, "1800")) << text;
}

TEST(tune_search, what_does_not_fit_is_never_run_and_is_told) {
  Machine machine = usual();
  machine.bytes = {{"shard=256", 5000}};
  machine.memory = 5999;
  const Outcome outcome = search(machine.knobs, 120, machine.world());
  EXPECT_LE(machine.most_bytes, machine.memory);
  const auto refused = std::ranges::find(outcome.rows, State::refused, &Row::state);
  ASSERT_NE(refused, outcome.rows.end());
  EXPECT_EQ(refused->why, "does not fit");
  // the next best is found in its place
  EXPECT_GE(chosen_speed(machine, outcome), (1 - kKnee) * 1000 * 1.2 * 1.25);
}

TEST(tune_search, what_failed_is_kept_on_record_and_nothing_bigger_is_tried) {
  Machine machine = usual();
  machine.crashes = {"shard=256", "shard=1024"};
  machine.bytes = {{"shard=64", 100}, {"shard=256", 200}, {"shard=1024", 300}};
  const Outcome outcome = search(machine.knobs, 120, machine.world());
  const auto failed = std::ranges::find(outcome.rows, State::failed, &Row::state);
  ASSERT_NE(failed, outcome.rows.end());
  EXPECT_EQ(failed->candidate, (Candidate{{"shard", "256"}}));
  EXPECT_EQ(failed->why, "crashed");
  // once, and neither more of it nor it beside other changes
  EXPECT_EQ(std::ranges::count_if(
                machine.ran, [&](const Candidate& c) { return machine.has(machine.crashes, c); }),
            1);
  EXPECT_GE(chosen_speed(machine, outcome), (1 - kKnee) * 1200);
}

TEST(tune_search, settings_stay_unless_they_are_beaten_by_more_than_noise) {
  Machine machine = usual();
  for (auto& [key, factor] : machine.worth) factor = std::min(factor, 1.0);
  machine.worth["shard=256"] = 1.04;
  machine.noise = 0.1;
  for (int64_t seed = 0; seed < 100; ++seed) {
    machine.now = 0, machine.measurements = 10'000 * seed;
    const Outcome outcome = search(machine.knobs, 120, machine.world());
    const double gain = outcome.rows[outcome.chosen].median() / outcome.rows[0].median();
    if (outcome.chosen != 0) {
      EXPECT_GT(gain, 1 + outcome.noise) << seed;
    }
    EXPECT_GE(chosen_speed(machine, outcome), machine.speed) << seed;
  }
}

TEST(tune_search, the_smallest_of_those_as_good_is_taken) {
  Machine machine{.knobs = {{"count", "8", {"16", "32", "64"}}}};
  machine.worth = {{"count=16", 1.5}, {"count=32", 1.51}, {"count=64", 1.52}};
  machine.bytes = {{"count=16", 100}, {"count=32", 200}, {"count=64", 300}};
  const Outcome outcome = search(machine.knobs, 60, machine.world());
  EXPECT_EQ(outcome.rows[outcome.chosen].candidate, (Candidate{{"count", "16"}}));
}

TEST(tune_search, finalists_are_measured_turn_about_and_the_settings_as_they_are_among_them) {
  Machine machine = usual();
  const Outcome outcome = search(machine.knobs, 120, machine.world());
  std::vector<size_t> finalists;
  for (size_t i = 0; i < outcome.rows.size(); ++i)
    if (!outcome.rows[i].finals.empty()) finalists.push_back(i);
  ASSERT_EQ(finalists.size(), 3u);
  EXPECT_EQ(finalists[0], 0u);
  const size_t from = machine.ran.size() - 9;
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(machine.ran[from + i], machine.ran[from + i + 3]);
  EXPECT_TRUE(machine.ran[from].empty());
}

TEST(tune_search, the_same_measurements_give_the_same_choice) {
  Machine one = usual(), other = usual();
  one.noise = other.noise = 0.05;
  const Outcome a = search(one.knobs, 60, one.world()), b = search(other.knobs, 60, other.world());
  EXPECT_EQ(a.chosen, b.chosen);
  EXPECT_EQ(one.ran, other.ran);
}

TEST(tune_search, settings_that_give_no_figure_are_told_and_not_searched_around) {
  Machine machine = usual();
  World world = machine.world();
  world.measure = [](const Candidate&, double, double) { return Sample{.failed = "it ended"}; };
  // more time helps only where there was too little
  EXPECT_EQ(error_of([&] { search(machine.knobs, 10, world); }),
            "[tune] the settings as they are give no figure: it ended");
  machine.overhead = 20;
  EXPECT_TRUE(contains(error_of([&] { search(machine.knobs, 10, machine.world()); }),
                       "no figure; give a larger --budget"));
  machine.memory = 1;
  EXPECT_THROW(search(machine.knobs, 10, machine.world()), Error);
}

}  // namespace
}  // namespace maglev::verbs::tune
