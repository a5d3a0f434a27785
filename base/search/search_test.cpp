#include <algorithm>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "base/search/asha.h"
#include "base/search/importance.h"
#include "base/search/sampler.h"
#include "tests/errors.h"

namespace maglev::search {
namespace {

using Kind = Dimension::Kind;

const std::vector<Setting> kKnown = {
    {.name = "ppo.lr", .low = 0, .high = 10},
    {.name = "ppo.epochs", .kind = Kind::integer, .low = 1, .high = 1000},
    {.name = "ppo.clip", .low = 0, .high = INFINITY},
    {.name = "ppo.optimizer",
     .kind = Kind::choice,
     .low = 0,
     .high = 0,
     .choices = {"adam", "muon"}}};

std::string refusal(const char* text) {
  try {
    parse_dimension(text, kKnown);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SearchSpace, reads_what_people_write) {
  const Dimension lr = parse_dimension("ppo.lr=1e-5..1e-2:log", kKnown);
  EXPECT_TRUE(lr.log);
  EXPECT_NEAR(lr.from_unit(0.5), std::sqrt(1e-7), 1e-12);
  const Dimension epochs = parse_dimension("ppo.epochs=1..10", kKnown);
  EXPECT_EQ(epochs.kind, Kind::integer);
  EXPECT_EQ(epochs.text(epochs.from_unit(0)), "1");
  EXPECT_EQ(epochs.text(epochs.from_unit(1)), "10");
  const Dimension sizes = parse_dimension("ppo.epochs=4,8,16", kKnown);
  EXPECT_EQ(sizes.text(sizes.from_unit(0.5)), "8");
  EXPECT_EQ(parse_dimension("ppo.optimizer", kKnown).choices.size(), 2u);
  // a list is one value
  const Dimension lists = parse_dimension("ppo.optimizer=[64,64],[32]", kKnown);
  EXPECT_EQ(lists.choices, (std::vector<std::string>{"[64,64]", "[32]"}));
  for (const char* text : {"ppo.lr=1e-05..0.01:log", "ppo.epochs=1..10", "ppo.epochs=4..64:pow2",
                           "ppo.optimizer=adam,muon"})
    EXPECT_EQ(parse_dimension(text, kKnown).written(), text);
}

TEST(SearchSpace, a_name_alone_is_searched_around_what_it_is) {
  struct Case {
    Setting setting;
    const char* searched;
  };
  const double most = 65536;
  for (const auto& [setting, searched] : std::vector<Case>{
           {{.name = "lr", .low = 0, .high = 10, .now = 1e-3f}, "lr=1e-04..0.01:log"},
           {{.name = "eps", .low = 0, .high = 2, .now = 0.1}, "eps=0.01..1:log"},
           {{.name = "rate", .low = 0, .high = 1, .now = 0.02f}, "rate=0.002..0.2:log"},
           // what is not far from its end, shares, and numbers of both signs have ranges to search
           {{.name = "beta", .low = 0, .high = 1, .now = 0.5}, "beta=0..1"},
           {{.name = "end", .low = 0, .high = 1, .now = 0}, "end=0..1"},
           {{.name = "log_std", .low = -10, .high = 5, .now = 0}, "log_std=-10..5"},
           // discounts by how much is missing to 1
           {{.name = "gamma", .low = 0, .high = 1, .now = 0.98f}, "gamma=0.8..1"},
           {{.name = "open", .low = 0, .high = INFINITY, .now = 2}, "open=0.2..20:log"},
           {{.name = "epochs", .kind = Kind::integer, .low = 1, .high = 1000, .now = 10},
            "epochs=3..40:log"},
           {{.name = "layers", .kind = Kind::integer, .low = 0, .high = 8, .now = 2},
            "layers=0..8"},
           {{.name = "units", .kind = Kind::integer, .low = 0, .high = most, .now = 64},
            "units=8..512:pow2"},
           {{.name = "classes", .kind = Kind::integer, .low = 12, .high = 255, .now = 64},
            "classes=16..128:pow2"},
       }) {
    EXPECT_EQ(parse_dimension(setting.name, {setting}).written(), searched);
  }
  const auto refused = [](const Setting& setting) {
    return error_of([&] { parse_dimension(setting.name, {setting}); });
  };
  const std::string memory =
      refused({.name = "memory", .kind = Kind::integer, .low = 0, .high = most, .now = 0});
  EXPECT_TRUE(contains(memory, "is 0 now, and may be up to 65536, which tells nothing") &&
              contains(memory, "say memory=0,16,64,256"))
      << memory;
  EXPECT_TRUE(contains(refused({.name = "kl", .low = 0, .high = 100, .now = 0}), "kl=low..high"));
}

TEST(SearchSpace, answers_mistakes_with_what_was_expected) {
  EXPECT_NE(refusal("ppo.lrr=0..1").find("did you mean ppo.lr"), std::string::npos);
  EXPECT_EQ(refusal("ppo.learning_rate=0..1"), "[--space] ppo.learning_rate is ppo.lr here");
  EXPECT_NE(refusal("ppo.lr=a..1").find("expects numbers"), std::string::npos);
  EXPECT_NE(refusal("ppo.lr=nan..1").find("expects numbers"), std::string::npos);
  EXPECT_NE(refusal("ppo.lr=1..0").find("low must lie below high"), std::string::npos);
  EXPECT_NE(refusal("ppo.lr=0..1:log").find("no logarithm"), std::string::npos);
  EXPECT_NE(refusal("ppo.lr=0..1:lin").find(":log"), std::string::npos);
  EXPECT_NE(refusal("ppo.lr=1e-4...1e-2").find("two dots"), std::string::npos);
  EXPECT_NE(refusal("ppo.lr=1..2:pow2").find("whole numbers from one power"), std::string::npos);
  EXPECT_NE(refusal("ppo.epochs=3..8:pow2").find("64..1024:pow2"), std::string::npos);
  EXPECT_NE(refusal("ppo.lr=-1..1").find("must lie in [0, 10]"), std::string::npos);
  EXPECT_NE(refusal("ppo.epochs=1.5..3").find("whole number"), std::string::npos);
  EXPECT_NE(refusal("ppo.clip").find("no range"), std::string::npos);
  EXPECT_NE(refusal("ppo.optimizer=0..1").find("has no range"), std::string::npos);
  EXPECT_NE(refusal("ppo.lr=0.1").find("expects low..high"), std::string::npos);
  EXPECT_NE(refusal("ppo.optimizer=adam,adam").find("given twice"), std::string::npos);
}

TEST(SearchSpace, values_survive_the_way_to_units_and_back) {
  for (const char* text : {"ppo.epochs=1..10", "ppo.epochs=1..1000:log", "ppo.epochs=3,5,9"}) {
    const Dimension d = parse_dimension(text, kKnown);
    const double last = d.kind == Kind::choice ? 2 : d.high;
    for (double value = d.kind == Kind::choice ? 0 : d.low; value <= last; ++value)
      EXPECT_EQ(d.from_unit(d.to_unit(value)), value) << text;
  }
}

TEST(SearchSpace, powers_of_two_are_alike_and_nothing_lies_between) {
  const Dimension d = parse_dimension("ppo.epochs=4..64:pow2", kKnown);
  double sum = 0;
  for (double value : {4, 8, 16, 32, 64}) {
    EXPECT_EQ(d.from_unit(d.to_unit(value)), value);
    EXPECT_NEAR(d.cell(value), 0.2, 1e-12);
    sum += d.to_unit(value);
  }
  EXPECT_NEAR(sum, 2.5, 1e-12);
  EXPECT_EQ(d.from_unit(0), 4);
  EXPECT_EQ(d.from_unit(1), 64);
  SearchSpace space;
  space.add(d);
  for (const auto& sampler : sampler_table()) {
    std::vector<SearchTrial> trials;
    for (int64_t number = 0; number < 24; ++number) {
      const auto proposal =
          sampler.ask({.space = space, .trials = trials, .seed = 3, .number = number},
                      {.start = 4, .population = 4});
      ASSERT_TRUE(proposal) << sampler.name;
      const double value = proposal->values[0];
      EXPECT_TRUE(value >= 4 && value <= 64 && std::exp2(std::round(std::log2(value))) == value)
          << sampler.name << " " << value;
      trials.push_back({.number = number,
                        .values = proposal->values,
                        .state = TrialState::finished,
                        .score = -std::abs(value - 16),
                        .cost = 1,
                        .ended = number + 1});
    }
  }
}

SearchSpace small_space() {
  SearchSpace space;
  space.add(parse_dimension("ppo.lr=1e-5..1e-2:log", kKnown));
  space.add(parse_dimension("ppo.epochs=1..10", kKnown));
  space.add(parse_dimension("ppo.optimizer", kKnown));
  return space;
}

double score_of(const Values& values) {
  return -std::abs(std::log10(values[0]) + 3) - 0.1 * std::abs(values[1] - 7) - values[2];
}

SearchTrial tried(int64_t number, const Values& values, double cost = 1) {
  return {.number = number,
          .values = values,
          .state = TrialState::finished,
          .score = score_of(values),
          .cost = cost,
          .ended = number + 1};
}

TEST(Samplers, stay_within_the_space_and_are_functions_of_their_question) {
  const SearchSpace space = small_space();
  for (const SamplerEntry& sampler : sampler_table()) {
    std::vector<SearchTrial> trials;
    for (int64_t n = 0; n < 40; ++n) {
      const Question question{.space = space, .trials = trials, .seed = 3, .number = n};
      const auto proposal = sampler.ask(question, {});
      ASSERT_TRUE(proposal) << sampler.name;
      EXPECT_EQ(proposal->values, sampler.ask(question, {})->values) << sampler.name;
      for (size_t d = 0; d < space.size(); ++d) {
        const Dimension& dimension = space.dimensions()[d];
        const double value = proposal->values[d];
        if (dimension.kind != Kind::real) {
          EXPECT_EQ(value, std::floor(value));
        }
        EXPECT_GE(value, dimension.kind == Kind::choice ? 0 : dimension.low) << sampler.name;
        EXPECT_LE(value, dimension.kind == Kind::choice ? 1 : dimension.high) << sampler.name;
      }
      trials.push_back(tried(n, proposal->values));
      // a crash teaches without a score
      if (n % 7 == 5) trials.back().state = TrialState::failed, trials.back().score = NAN;
    }
  }
}

TEST(Samplers, a_choice_and_a_number_are_drawn_apart) {
  SearchSpace space;
  space.add({.name = "x", .low = 0, .high = 1});
  space.add({.name = "c", .kind = Kind::choice, .choices = {"a", "b"}});
  for (const SamplerEntry& sampler : sampler_table()) {
    int alike = 0;
    for (uint64_t seed = 0; seed < 64; ++seed) {
      const Question first{.space = space, .trials = {}, .seed = seed, .number = 0};
      const auto proposal = sampler.ask(first, {});
      ASSERT_TRUE(proposal) << sampler.name;
      alike += (proposal->values[0] < 0.5) == (proposal->values[1] == 0);
    }
    // half of them, within four deviations
    EXPECT_NEAR(alike, 32, 16) << sampler.name;
  }
}

TEST(Samplers, trials_at_once_keep_apart) {
  const SearchSpace space = small_space();
  std::vector<SearchTrial> trials;
  for (int64_t n = 0; n < 30; ++n)
    trials.push_back(
        tried(n, ask_tpe({.space = space, .trials = trials, .seed = 1, .number = n}, {})->values));
  std::set<double> rates;
  for (int64_t n = 30; n < 38; ++n) {
    const auto proposal = ask_tpe({.space = space, .trials = trials, .seed = 1, .number = n}, {});
    rates.insert(proposal->values[0]);
    trials.push_back({.number = n, .values = proposal->values});
  }
  EXPECT_EQ(rates.size(), 8u);
  EXPECT_GT(std::log10(*rates.rbegin() / *rates.begin()), 0.3);
}

TEST(Pareto, a_front_is_what_nothing_beats_in_both) {
  std::vector<SearchTrial> trials;
  const double points[][2] = {{1, 1}, {3, 2}, {2, 3}, {5, 9}, {5, 8}};  // score, cost
  for (const auto& [score, cost] : points)
    trials.push_back({.number = int64_t(trials.size()),
                      .state = TrialState::finished,
                      .score = score,
                      .cost = cost,
                      .ended = int64_t(trials.size()) + 1});
  std::vector<int64_t> front;
  for (const SearchTrial* trial : pareto_front(trials)) front.push_back(trial->number);
  EXPECT_EQ(front, (std::vector<int64_t>{0, 1, 4}));
  const auto order = by_pareto(trials);
  EXPECT_EQ(order.size(), 5u);
  EXPECT_TRUE(order[3]->number == 2 || order[3]->number == 3);
}

TEST(Pareto, the_sampler_learns_that_seconds_count) {
  // the score is the same everywhere and epochs alone cost
  const SearchSpace space = small_space();
  std::vector<SearchTrial> trials;
  for (int64_t n = 0; n < 60; ++n) {
    const auto p = ask_pareto({.space = space, .trials = trials, .seed = 2, .number = n}, {});
    trials.push_back(tried(n, p->values, p->values[1]));
    trials.back().score = 1;
  }
  double epochs = 0;
  for (size_t n = 40; n < 60; ++n) epochs += trials[n].values[1] / 20;
  EXPECT_LT(epochs, 3);
}

// trials 0 to count - 1 at the first rung, later ones worse
std::vector<SearchTrial> at_first_rung(int64_t count) {
  std::vector<SearchTrial> trials;
  for (int64_t n = 0; n < count; ++n) trials.push_back({.number = n, .rungs = {double(-n)}});
  return trials;
}

TEST(Asha, rungs_grow_by_the_share_that_is_kept) {
  EXPECT_EQ(Asha::with(1000, 20'000, 3).rungs, (std::vector<int64_t>{1000, 3000, 9000, 20'000}));
}

TEST(Asha, promotes_as_the_papers_rule_says) {
  const Asha asha = Asha::with(1, 9, 3);
  std::vector<int64_t> promoted(9, 1);
  // of two none is among the best third
  EXPECT_FALSE(asha.promote(at_first_rung(2), promoted));
  auto trials = at_first_rung(3);
  EXPECT_EQ(asha.promote(trials, promoted), 0);
  promoted[0] = 2;
  EXPECT_FALSE(asha.promote(trials, promoted));
  // six reached it: the second best too
  trials = at_first_rung(6);
  EXPECT_EQ(asha.promote(trials, promoted), 1);
  // the highest rung first
  trials = at_first_rung(9);
  for (int64_t n : {0, 1, 2}) trials[size_t(n)].rungs.push_back(double(n));
  promoted = {2, 2, 2, 1, 1, 1, 1, 1, 1};
  EXPECT_EQ(asha.promote(trials, promoted), 2);
  promoted[2] = 3;
  EXPECT_FALSE(asha.promote(trials, promoted));
  // one that failed is not promoted
  trials = at_first_rung(3);
  trials[0].state = TrialState::failed;
  EXPECT_FALSE(asha.promote(trials, std::vector<int64_t>(3, 1)));
}

TEST(Pbt, the_worst_go_on_from_the_best_perturbed_and_the_rest_from_themselves) {
  const SearchSpace space = small_space();
  std::vector<SearchTrial> trials;
  for (int64_t n = 0; n < 10; ++n) {
    trials.push_back(tried(n, {1e-3, 5, 0}));
    trials.back().score = double(-n);
  }
  const SamplerOptions options{.population = 10};
  for (int64_t n = 10; n < 18; ++n) {
    const auto p = ask_pbt({.space = space, .trials = trials, .seed = 1, .number = n}, options);
    EXPECT_EQ(p->parent, n - 10);
    EXPECT_EQ(p->values, trials[size_t(n - 10)].values);
  }
  for (int64_t n = 18; n < 20; ++n) {
    const auto p = ask_pbt({.space = space, .trials = trials, .seed = 1, .number = n}, options);
    EXPECT_LT(p->parent, 2);
    const double share = p->values[0] / 1e-3;
    EXPECT_TRUE(std::abs(share - 0.8) < 1e-9 || std::abs(share - 1.2) < 1e-9) << share;
    EXPECT_TRUE(p->values[1] == 4 || p->values[1] == 6);
  }
  // nobody goes on while the generation before runs
  trials[4].ended = 0;
  EXPECT_FALSE(ask_pbt({.space = space, .trials = trials, .seed = 1, .number = 10}, options));
}

TEST(Pbt, a_member_without_a_score_goes_on_as_it_is_and_is_no_worst) {
  const SearchSpace space = small_space();
  std::vector<SearchTrial> trials;
  for (int64_t n = 0; n < 4; ++n) {
    trials.push_back(tried(n, {1e-3 * double(n + 1), 5, 0}));
    trials.back().score = double(n);
  }
  trials[0].state = trials[2].state = TrialState::unscored;
  trials[0].score = trials[2].score = NAN;
  const auto child = [&](int64_t n) {
    return *ask_pbt({.space = space, .trials = trials, .seed = 1, .number = n}, {.population = 4});
  };
  for (int64_t n : {0, 2}) {
    EXPECT_EQ(child(4 + n).parent, n);
    EXPECT_EQ(child(4 + n).values, trials[size_t(n)].values);
  }
  // of the two that are known the worse one takes the better one's place
  EXPECT_EQ(child(5).parent, 3);
  EXPECT_EQ(child(7).parent, 3);
  // one that is known alone is not the worst
  trials[1].state = TrialState::unscored;
  EXPECT_EQ(child(7).values, trials[3].values);
}

TEST(Samplers, hear_nothing_of_a_trial_without_a_score) {
  const SearchSpace space = small_space();
  std::vector<SearchTrial> trials;
  for (int64_t n = 0; n < 12; ++n) {
    trials.push_back(tried(n, ask_random({.space = space, .trials = {}, .number = n}, {})->values));
    trials.back().score = double(n);
  }
  auto more = trials;
  more.push_back(tried(12, {1e-2, 9, 1}));
  more.back().state = TrialState::unscored, more.back().score = NAN;
  EXPECT_EQ(by_score(more).size(), trials.size());
  for (const auto& sampler : sampler_table()) {
    if (sampler.name == std::string("pbt")) continue;
    const SamplerOptions options{.start = 4};
    EXPECT_EQ(
        sampler.ask({.space = space, .trials = more, .seed = 3, .number = 13}, options)->values,
        sampler.ask({.space = space, .trials = trials, .seed = 3, .number = 13}, options)->values)
        << sampler.name;
  }
}

TEST(Importance, is_the_share_of_variance_a_setting_explains_alone) {
  const SearchSpace space = small_space();
  std::vector<SearchTrial> trials;
  for (int64_t n = 0; n < 400; ++n) {
    const auto p = ask_random({.space = space, .trials = {}, .seed = 5, .number = n}, {});
    trials.push_back(tried(n, p->values));
    trials.back().score = 3 * std::log10(p->values[0]);
  }
  const std::vector<double> shares = importance(space, trials);
  EXPECT_GT(shares[0], 0.9);
  EXPECT_LT(shares[1], 0.05);
  EXPECT_LT(shares[2], 0.05);
}

}  // namespace
}  // namespace maglev::search
