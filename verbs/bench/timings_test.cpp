#include "verbs/bench/timings.h"

#include <cmath>
#include <utility>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "base/core/philox.h"
#include "base/statistics/distributions.h"
#include "verbs/bench/outputs.h"

namespace maglev::verbs::bench {
namespace {

// `rounds` samples around `seconds`, with noise as machines have it: never faster than the work,
// and now and then much slower
Timing drawn(double seconds, uint64_t seed, int rounds = kRounds) {
  Timing timing{"suite", "work"};
  Rng rng(seed, 0, 0);
  for (int i = 0; i < rounds; ++i) {
    const double spike = rng.uniform(0.f, 1.f) < 0.1f ? 0.5 : 0;
    timing.seconds.push_back(seconds * (1 + 0.08 * rng.uniform(0.f, 1.f) + spike));
  }
  return timing;
}

// with noise as factors multiply, whose logarithm is `noise` off
Timing lognormal(double noise, uint64_t seed, int rounds) {
  Timing timing{"suite", "work"};
  Rng rng(seed, 1, 0);
  for (int i = 0; i < rounds; ++i)
    timing.seconds.push_back(
        std::exp(noise * normal_quantile((rng.below(1 << 20) + 0.5) / (1 << 20))));
  return timing;
}

TEST(Timings, a_slower_work_is_named_and_its_fix_is_faster) {
  // more rounds see it among more that is much slower now and then
  for (const auto& [rounds, least] : {std::pair{int(kRounds), 145}, {15, 170}}) {
    int named = 0, mended = 0;
    for (uint64_t seed = 0; seed < 200; ++seed) {
      const auto now = drawn(1.3, 2 * seed, rounds), before = drawn(1, 2 * seed + 1, rounds);
      named += compared({now}, {before}, 0.05)[0].verdict == Verdict::slower;
      mended += compared({before}, {now}, 0.05)[0].verdict == Verdict::faster;
    }
    EXPECT_GE(named, least) << rounds;
    EXPECT_EQ(named, mended);
  }
}

TEST(Timings, noise_is_seldom_a_regression) {
  int alarms = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed)
    alarms +=
        compared({drawn(1, 2 * seed)}, {drawn(1, 2 * seed + 1)}, 0.05)[0].verdict != Verdict::same;
  EXPECT_LE(alarms, 5);
}

TEST(Timings, noise_of_any_size_is_seldom_a_regression) {
  for (const int rounds : {6, 7, int(kRounds), 12})
    for (const double noise : {0.05, 0.1, 0.2}) {
      int alarms = 0;
      for (uint64_t seed = 0; seed < 10'000; ++seed)
        alarms += compared({lognormal(noise, 2 * seed, rounds)},
                           {lognormal(noise, 2 * seed + 1, rounds)}, 0.05)[0]
                      .verdict != Verdict::same;
      EXPECT_LE(alarms, 50) << rounds << " rounds, noise " << noise;
    }
}

TEST(Timings, an_interval_covers_the_median_and_too_few_rounds_have_none) {
  for (const int rounds : {3, 6, 7, int(kRounds)}) {
    const bool enough = rounds >= kLeastJudged;
    int covered = 0;
    for (uint64_t seed = 0; seed < 4000; ++seed) {
      const TimingSummary summary = summary_of(lognormal(0.1, seed, rounds));
      EXPECT_EQ(summary.is_range, !enough);
      covered += summary.interval.low <= 1 && 1 <= summary.interval.high;
    }
    EXPECT_EQ(covered >= 0.94 * 4000, enough) << rounds;
  }
  const Timing few{"s", "w", {2, 2, 2, 2, 2}}, many{"s", "w", {1, 1, 1, 1, 1, 1}};
  EXPECT_EQ(compared({few}, {many}, 0.05)[0].verdict, Verdict::too_few);
  EXPECT_EQ(compared({many}, {few}, 0.05)[0].verdict, Verdict::too_few);
  EXPECT_STREQ(interval_name(summary_of(few)), "range");
  EXPECT_STREQ(interval_name(summary_of(many)), "95% interval");
}

TEST(Timings, a_threshold_forgives_what_is_certain_but_small) {
  const Timing now{"s", "w", {1.10, 1.11, 1.12, 1.10, 1.11, 1.12}},
      before{"s", "w", {1.00, 1.01, 1.02, 1.00, 1.01, 1.02}};
  EXPECT_EQ(compared({now}, {before}, 0.05)[0].verdict, Verdict::slower);
  EXPECT_EQ(compared({now}, {before}, 0.2)[0].verdict, Verdict::same);
  EXPECT_TRUE(compared({now}, {{"s", "other", {1, 1}}}, 0.05).empty());
}

TEST(Timings, what_is_written_is_read_back_and_other_texts_are_refused) {
  const std::vector<Timing> timings = {{"ops", "relu", {1e-6, 2e-6, 3e-6}}};
  const auto read = timings_of_json(timings_json(timings, "a machine"), "x.json");
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].suite, "ops");
  EXPECT_EQ(read[0].seconds, timings[0].seconds);
  EXPECT_DOUBLE_EQ(summary_of(read[0]).median, 2e-6);
  for (const char* bad : {"", "[]", "{}", R"({"timings": [{"suite": 1}]})",
                          R"({"timings": [{"suite": "a", "name": "b", "seconds": [1]}]})",
                          R"({"timings": [{"suite": "a", "name": "b", "seconds": [1, -1]}]})"})
    EXPECT_THROW(timings_of_json(bad, "x.json"), Error) << bad;
}

TEST(Timings, the_page_has_every_work_and_asks_for_nothing) {
  const Timing now{"ops", "a<b", {2, 2, 2.1, 2.1, 2.2, 2.2}},
      before{"ops", "a<b", {1, 1, 1.1, 1.1, 1.2, 1.2}};
  const std::string page = timings_page({now}, compared({now}, {before}, 0.05), "a machine");
  EXPECT_NE(page.find("ops/a&lt;b"), std::string::npos);
  EXPECT_NE(page.find("slower"), std::string::npos);
  EXPECT_NE(page.find("<svg"), std::string::npos);
  EXPECT_EQ(page.find("src="), std::string::npos);
}

}  // namespace
}  // namespace maglev::verbs::bench
