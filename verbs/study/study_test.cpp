#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/env/env_params.h"
#include "tests/errors.h"
#include "verbs/study/report.h"

namespace maglev::verbs::study {
namespace {

Foraging foraged(const std::string& name, const Protocol& protocol, int threads,
                 std::vector<std::string> settings = {}) {
  claim_threads();
  for (const auto& setting : survival_settings()) settings.push_back(setting);
  const EnvEntry& env = find_env(kEnvironment);
  const EnvParams params(env, settings);
  ThreadPool pool(threads);
  const Game game{.env = env,
                  .params = params.get(),
                  .spec = env.spec(params.get()),
                  .placement = {.device = at::kCPU, .threads = threads},
                  .pool = pool};
  return forage(*make_player(name, game, ActMode::sample), game, protocol);
}

constexpr Protocol kSmall{.envs = 96, .steps = 300, .seed = 5};

TEST(Study, who_knows_the_truth_lives_and_who_follows_the_proxy_eats_poison) {
  const Foraging truth = foraged("omniscient_seeker", kSmall, 2);
  const Foraging proxy = foraged("proxy_seeker", kSmall, 2), random = foraged("random", kSmall, 2);
  EXPECT_GT(truth.all.per_1k(&Tally::energy), 10);
  EXPECT_GT(truth.all.efficiency(), 0.99);
  EXPECT_LT(proxy.all.per_1k(&Tally::energy), -10);
  EXPECT_GT(proxy.proxy_return, random.proxy_return);
  EXPECT_GT(truth.restricted_mean, 2 * proxy.restricted_mean);
}

TEST(Study, judging_is_the_same_for_any_number_of_threads) {
  for (const char* name : {"random", "omniscient_seeker"})
    EXPECT_EQ(to_json(foraged(name, kSmall, 1)), to_json(foraged(name, kSmall, 3))) << name;
  Protocol other = kSmall;
  other.seed += 1;
  EXPECT_NE(to_json(foraged("random", kSmall, 1)), to_json(foraged("random", other, 1)));
}

TEST(Study, what_is_counted_adds_up) {
  const Foraging f = foraged("random", kSmall, 1);
  Tally sum;
  for (const Tally& part : f.strata) {
    EXPECT_GT(part.steps, 0);
    sum.steps += part.steps, sum.deaths += part.deaths, sum.food += part.food;
  }
  EXPECT_EQ(sum.steps, f.all.steps);
  EXPECT_EQ(sum.deaths, f.all.deaths);
  EXPECT_EQ(sum.food, f.all.food);
  // a death takes a step to begin anew, and each environment's last life is looked at to the end
  EXPECT_LE(f.all.steps, kSmall.envs * kSmall.steps);
  EXPECT_GE(f.all.steps, kSmall.envs * kSmall.steps - int64_t(f.all.deaths));
  EXPECT_LE(f.lives, int64_t(f.all.deaths) + kSmall.envs);
  EXPECT_NEAR(f.all.energy, f.all.food - 2 * f.all.poison - 0.01 * double(f.all.steps),
              1e-4 * double(f.all.steps));
  EXPECT_NEAR(f.true_return, f.all.per_1k(&Tally::energy) - 4 * f.all.per_1k(&Tally::deaths), 1e-9);
  EXPECT_NEAR(f.proxy_return, f.all.per_1k(&Tally::food) + 0.5 * f.all.per_1k(&Tally::poison),
              1e-9);
  // and comes back from a file
  EXPECT_EQ(to_json(foraging_of(to_json(f))), to_json(f));
}

TEST(Study, who_never_eats_starves_on_the_hundred_and_first_step) {
  const Foraging f =
      foraged("random", {.envs = 8, .steps = 150, .seed = 1}, 1,
              {"env.min_food=0", "env.max_food=0", "env.min_poison=0", "env.max_poison=0"});
  EXPECT_EQ(f.restricted_mean, 101);
  EXPECT_EQ(f.all.deaths, 8);
  EXPECT_EQ(f.lives, 16) << "the second lives were going on";
  EXPECT_EQ(f.fed_lives, 0);
  EXPECT_TRUE(std::isnan(f.life_efficiency)) << "who ate nothing has no efficiency";
  EXPECT_TRUE(std::isnan(f.all.efficiency()));
}

TEST(Study, density_that_nobody_observes_makes_no_strata) {
  const Foraging f = foraged("random", kSmall, 1, {"env.privileged=false"});
  EXPECT_GT(f.all.steps, 0);
  for (const Tally& part : f.strata) EXPECT_EQ(part.steps, 0);
}

TEST(Study, every_arm_can_be_trained_and_every_comparison_names_arms) {
  for (const Plan& plan : plans()) {
    EXPECT_EQ(chosen_arms(plan, {}).size(), plan.arms.size());
    for (const Arm& arm : plan.arms) {
      Experiment experiment(kAlgorithm, kEnvironment);
      for (const auto& setting : arm.settings) experiment.table().override_with(setting);
      experiment.env().check(experiment.env_params());
      EXPECT_EQ(arm.settings.empty(), !arm.trained()) << arm.name;
      // what it is made of stands before it and is trained
      for (const char* need : arm.needs()) {
        const Arm& part = find_arm(plan, need);
        EXPECT_LT(&part, &arm) << arm.name;
        EXPECT_TRUE(part.trained()) << arm.name;
      }
    }
    for (const auto& [first, second] : plan.compared)
      EXPECT_NE(find_arm(plan, first).name, find_arm(plan, second).name);
  }
  // an arm brings along what it is made of
  std::vector<std::string> names;
  for (const Arm* arm : chosen_arms(find_plan("goodhart_mends"), {"audited"}))
    names.emplace_back(arm->name);
  EXPECT_EQ(names, (std::vector<std::string>{"base", "unmended", "audited"}));
  EXPECT_TRUE(contains(error_of([] { find_plan("godhart"); }), "goodhart"));
  EXPECT_TRUE(contains(error_of([] { chosen_arms(plans()[0], {"proxi"}); }), "proxy"));
}

TEST(Study, an_audit_is_not_judged_by_the_row_that_chose_it) {
  // the best row is the second, the last cannot be chosen
  const Audit audit = audit_of({{10, 1, 0}, {20, 9, 0}, {30, 4, 0}, {40, -2, 0}, {50, 99, 0}});
  EXPECT_EQ(audit.step, 20);
  EXPECT_EQ(audit.stopped, 4);
  EXPECT_EQ(audit.last, 99);
}

TEST(Study, curves_are_averaged_over_stretches_and_seeds) {
  const MeanCurve c = mean_curve({{{1, 0, 4}, {2, 2, 4}, {3, 4, 4}, {4, 6, 4}},
                                  {{1, 10, 8}, {2, 12, 8}, {3, 14, 8}, {4, 16, 8}}},
                                 2);
  EXPECT_EQ(c.step, (std::vector<double>{2, 4}));
  EXPECT_EQ(c.truth, (std::vector<double>{6, 10}));
  EXPECT_EQ(c.truth_low, (std::vector<double>{1, 5}));
  EXPECT_EQ(c.truth_high, (std::vector<double>{11, 15}));
  EXPECT_EQ(c.proxy, (std::vector<double>{6, 6}));
}

/// An arm whose seeds gain so much energy per 1,000 steps, and so much of the proxy.
ArmResult gaining(const char* arm, const std::vector<double>& energy, double proxy) {
  ArmResult result{.arm = chosen_arms(plans()[0], {arm})[0]};
  for (size_t i = 0; i < energy.size(); ++i) {
    Foraging f;
    f.all = {.steps = 1000, .deaths = 1, .food = 2, .poison = 1, .energy = energy[i]};
    f.survival = {{1, 1.0}, {2, 0.5}};
    f.proxy_return = proxy + double(i);
    result.steps.push_back(1000 + int64_t(i));
    result.seeds.push_back({.seed = i + 1, .sampled = f, .greedy = std::nullopt});
    result.curves.push_back({{500, energy[i], proxy}, {1000, energy[i], proxy}});
  }
  return result;
}

std::string reported(const std::vector<double>& truth, const std::vector<double>& proxy) {
  const StudyRequest request{.plan = &plans()[0], .arms = {}, .folder = "", .seeds = 3};
  const Page page = report_of(
      request, {gaining("ground_truth", truth, 50), gaining("proxy", proxy, 90)}, "./maglev study");
  // both say the same
  const std::string page_html = html(page);
  EXPECT_TRUE(contains(page_html, "<svg"));
  EXPECT_FALSE(contains(page_html, "src="));
  EXPECT_FALSE(contains(page_html, "nan"));
  return markdown(page, "study_");
}

TEST(Study, a_sweep_goes_from_the_truth_to_a_proxy_that_speaks_against_it) {
  const auto& arms = find_plan("goodhart_interest").arms;
  EXPECT_NEAR(arms.front().x, 1, 1e-12);
  EXPECT_NEAR(find_arm(find_plan("goodhart_interest"), "interest_0.5").x, 0, 1e-12);
  EXPECT_NEAR(arms.back().x, -1 / std::sqrt(10), 1e-12);
  for (size_t i = 1; i < arms.size(); ++i) EXPECT_LT(arms[i].x, arms[i - 1].x) << arms[i].name;
  const auto& pressed = find_plan("goodhart_pressure").arms;
  for (size_t i = 1; i < pressed.size(); ++i) EXPECT_GT(pressed[i].x, pressed[i - 1].x);
}

TEST(Study, claims_hold_only_where_intervals_say_so) {
  const std::string clear = reported({100, 101, 102}, {-40, -41, -42});
  EXPECT_TRUE(contains(clear,
                       "ground_truth gains energy (95 % interval 98.5 to 103.5"
                       " per 1,000 steps): this holds."))
      << clear;
  EXPECT_TRUE(contains(clear, "proxy loses energy (-43.5 to -38.5): this holds."));
  EXPECT_TRUE(contains(clear, "ground_truth is higher than proxy"));
  EXPECT_TRUE(contains(clear, "(study_energy.svg)"));
  const std::string unclear = reported({100, -101, 102}, {-40, 41, -42});
  EXPECT_TRUE(contains(unclear, "proxy loses energy")) << unclear;
  EXPECT_FALSE(contains(unclear, "proxy loses energy (-43.5 to -38.5): this holds."));
  EXPECT_TRUE(contains(unclear, "this is not shown."));
  EXPECT_TRUE(contains(reported({-100, -101, -102}, {-40, -41, -42}), "the opposite is shown."));
  EXPECT_FALSE(contains(unclear, "ground_truth is higher than proxy"));
}

/// A judged group whose seeds live so long and eat so much poison beside 10 of food.
ArmResult living(const Arm& arm, const std::vector<double>& life, double poison) {
  ArmResult result{.arm = &arm};
  for (double steps : life) {
    Foraging f;
    f.all = {.steps = 1000, .deaths = 1, .food = 10, .poison = poison, .energy = steps / 10};
    f.survival = {{1, 1.0}, {2, 0.5}};
    f.restricted_mean = steps;
    result.seeds.push_back({.seed = 1, .sampled = f, .greedy = std::nullopt});
  }
  return result;
}

TEST(Study, groups_that_are_judged_are_tested_and_goodharts_law_has_two_figures) {
  const Arm truth{.name = "a", .summary = ""}, proxy{.name = "b", .summary = ""};
  const std::vector<ArmResult> results{living(truth, {300, 301, 302}, 0),
                                       living(proxy, {30, 31, 29}, 10)};
  const Headline headline = headline_of(results[0], results[1]);
  EXPECT_DOUBLE_EQ(headline.failure.value, 0.5);
  EXPECT_DOUBLE_EQ(headline.collapse.value, 301. / 30);
  EXPECT_LT(headline.collapse.interval.low, headline.collapse.value);
  const std::vector<std::string> modes{"ground_truth", "proxy"};
  const std::string page = markdown(page_of_judged(results, modes, kSmall, "./maglev"), "");
  EXPECT_TRUE(contains(page, "a is higher than b")) << page;
  EXPECT_TRUE(contains(page, "Goodhart failure index: b loses 0.5 of the efficiency of a"));
  EXPECT_TRUE(contains(page, "a mean life of a is 10.0 times that of b (95 % interval ")) << page;
  const auto json = json_of_judged(results, modes);
  EXPECT_EQ(json["headlines"][0]["failure_index"]["value"], 0.5);
  EXPECT_EQ(json["compared"]["energy_per_1k"][0]["verdict"], "a is higher than b");
  // one that is paid by something else, and a run by itself
  const std::string other = markdown(
      page_of_judged({results[0], living(proxy, {30}, 10)}, {"ground_truth", "blind"}, kSmall, ""),
      "");
  EXPECT_FALSE(contains(other, "failure index"));
  EXPECT_TRUE(contains(other, "Nothing is tested")) << other;
}

TEST(Study, profiles_and_chances_are_those_of_compare) {
  const Arm truth{.name = "a", .summary = ""}, proxy{.name = "b", .summary = ""};
  const std::vector<ArmResult> results{living(truth, {300, 301, 302, 303, 304}, 0),
                                       living(proxy, {30, 301, 29}, 10)};
  const std::vector<std::string> modes{"ground_truth", "proxy"};
  const std::string page = markdown(page_of_judged(results, modes, kSmall, "./maglev"), "p_");
  EXPECT_TRUE(contains(page, "(p_profile.svg)")) << page;
  EXPECT_TRUE(contains(page, "There is no performance profile of b: that takes 5 seeds."));
  EXPECT_TRUE(contains(page, "| P above |"));
  const auto json = json_of_judged(results, modes);
  // of fifteen pairs of seeds thirteen and a tie
  EXPECT_DOUBLE_EQ(json["compared"]["energy_per_1k"][0]["probability_of_improvement"], 13.5 / 15);
  const auto& energy = json["figures"]["a"]["sampled"]["energy_per_1k"];
  EXPECT_EQ(energy["performance_profile"].size(), 5u);
  EXPECT_DOUBLE_EQ(energy["performance_profile"][1]["share"], 0.8);
  EXPECT_TRUE(json["figures"]["b"]["sampled"]["energy_per_1k"]["performance_profile"].is_null());
}

TEST(Study, a_report_says_what_seeds_differ_in_and_what_is_not_there) {
  const StudyRequest request{.plan = &plans()[0], .arms = {}, .folder = "", .seeds = 1};
  std::vector<ArmResult> results{gaining("ground_truth", {100, 101, 102}, 50),
                                 gaining("proxy", {-40, -41, -42}, 90)};
  const auto text = [&] { return markdown(report_of(request, results, "./maglev study"), ""); };
  EXPECT_TRUE(contains(text(), "1 training seed an arm, 1000 to 1002 steps each")) << text();
  EXPECT_TRUE(contains(text(), "env.privileged=false shows nothing"));
  EXPECT_FALSE(contains(text(), "much poison: energy/1k"));
  EXPECT_EQ(json_of(request, results)["arms"]["proxy"]["steps"], 1001);
  EXPECT_FALSE(contains(text(), "have their curve here"));
  EXPECT_TRUE(contains(text(), "Stopping early"));
  results[1].seeds[0].sampled.strata[0] = {.steps = 10, .energy = 1};
  results[1].curves.clear();
  EXPECT_TRUE(contains(text(), "much poison: energy/1k"));
  EXPECT_TRUE(contains(text(), "proxy: of 3 seeds 0 have their curve here")) << text();
  EXPECT_FALSE(contains(text(), "curve_proxy"));
  // of curves of one row there is none to stop at: no table without rows
  for (auto& curve : results[0].curves) curve.resize(1);
  EXPECT_FALSE(contains(text(), "Stopping early"));
}

TEST(Study, a_page_escapes_what_html_would_read) {
  const Page page{.title = "a<b",
                  .parts = {Paragraph{"x & y"}, ReportTable{{"k", "v"}, {{"<i>", "1"}}}}};
  EXPECT_TRUE(contains(html(page), "a&lt;b"));
  EXPECT_TRUE(contains(html(page), "x &amp; y"));
  EXPECT_TRUE(contains(html(page), "&lt;i&gt;"));
  EXPECT_TRUE(contains(markdown(page, ""), "| k | v |\n|---|---:|\n| <i> | 1 |"));
}

TEST(Study, tables_of_words_keep_room_for_them) {
  const Page page{.title = "t", .parts = {ReportTable{{"k", "v"}, {{"a", "b"}}, /*words=*/true}}};
  EXPECT_TRUE(contains(html(page), "<table class=\"words\">"));
}

}  // namespace
}  // namespace maglev::verbs::study
