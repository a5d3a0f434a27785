#include "verbs/study/report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <nlohmann/json.hpp>

#include "base/core/printed.h"
#include "base/picture/chart.h"
#include "base/statistics/samples.h"
#include "verbs/compare/profile.h"
#include "verbs/compare/verdict.h"
#include "verbs/json_number.h"

namespace maglev::verbs::study {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kConfidence = 0.95;
constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();
// said of every report
constexpr const char* kMeaning =
    "What has /1k is of 1,000 steps. Efficiency is food among all that was eaten; per life it is "
    "the mean over lives that ate something. Mean life is restricted to the steps that were looked "
    "at (Kaplan-Meier). True return is energy less what death costs, proxy return the "
    "interestingness of what was eaten.";
constexpr const char* kGreedyTitle = "The same with the likeliest action in place of a drawn one:";
constexpr const char* kStrataTitle = "By how much the worlds hold";
constexpr size_t kCurvePoints = 60, kPlanePoints = 16;

/// A figure of one seed's foraging.
struct Measure {
  const char* name;   ///< in JSON
  const char* title;  ///< for people
  double (*of)(const Foraging&);
};
constexpr Measure kMeasures[] = {
    {"energy_per_1k", "energy/1k", [](const Foraging& f) { return f.all.per_1k(&Tally::energy); }},
    {"food_per_1k", "food/1k", [](const Foraging& f) { return f.all.per_1k(&Tally::food); }},
    {"poison_per_1k", "poison/1k", [](const Foraging& f) { return f.all.per_1k(&Tally::poison); }},
    {"deaths_per_1k", "deaths/1k", [](const Foraging& f) { return f.all.per_1k(&Tally::deaths); }},
    {"efficiency", "efficiency", [](const Foraging& f) { return f.all.efficiency(); }},
    {"life_efficiency", "per life", [](const Foraging& f) { return f.life_efficiency; }},
    {"restricted_mean", "mean life", [](const Foraging& f) { return f.restricted_mean; }},
    {"true_return", "true return/1k", [](const Foraging& f) { return f.true_return; }},
    {"proxy_return", "proxy return/1k", [](const Foraging& f) { return f.proxy_return; }}};
constexpr const Measure &kEnergy = kMeasures[0], &kEfficiency = kMeasures[4], &kLife = kMeasures[6],
                        &kTruth = kMeasures[7], &kProxy = kMeasures[8];
/// What is tested.
constexpr const Measure* kTested[] = {&kEnergy, &kLife, &kProxy};

/// One value a seed; seeds without one are left out.
std::vector<double> values_of(const ArmResult& arm, const Measure& measure, bool greedy) {
  std::vector<double> values;
  for (const Judgement& seed : arm.seeds) {
    if (greedy && !seed.greedy) continue;
    const double value = measure.of(greedy ? *seed.greedy : seed.sampled);
    if (std::isfinite(value)) values.push_back(value);
  }
  return values;
}

/// Of a training; 0: there was none.
int64_t mean_steps(const ArmResult& arm) {
  const auto n = int64_t(arm.steps.size());
  return n > 0 ? std::accumulate(arm.steps.begin(), arm.steps.end(), int64_t(0)) / n : 0;
}

Spread spread_or_unknown(const std::vector<double>& values) {
  if (values.empty()) return {kNoValue, kNoValue, {kNoValue, kNoValue}};
  return spread_of(values, kConfidence);
}

std::string figure_text(double x) {
  if (!std::isfinite(x)) return "-";
  return printed(std::abs(x) >= 1000 ? "%.0f" : std::abs(x) >= 10 ? "%.1f" : "%.3g", x);
}

std::string interval_text(const Interval& i) {
  if (!std::isfinite(i.low)) return "-";
  return figure_text(i.low) + " to " + figure_text(i.high);
}

const ArmResult* find(const std::vector<ArmResult>& results, const std::string& name) {
  for (const ArmResult& result : results)
    if (name == result.arm->name) return &result;
  return nullptr;
}

/// Two arms beside each other, of all that are tested together.
struct Comparison {
  std::string first, second;
  compare::Pair pair;
  compare::Improvement above;
  compare::Finding finding;
  std::string verdict;
};
using ArmPairs = std::vector<std::pair<size_t, size_t>>;
/// The plan's pairs of arms that are there.
ArmPairs planned_pairs(const Plan& plan, const std::vector<ArmResult>& results) {
  ArmPairs planned;
  for (const auto& [first, second] : plan.compared) {
    const ArmResult *a = find(results, first), *b = find(results, second);
    if (a && b) planned.emplace_back(size_t(a - results.data()), size_t(b - results.data()));
  }
  return planned;
}
ArmPairs all_pairs(size_t arms) {
  ArmPairs all;
  for (size_t a = 0; a < arms; ++a)
    for (size_t b = a + 1; b < arms; ++b) all.emplace_back(a, b);
  return all;
}

std::vector<Comparison> comparisons(const ArmPairs& planned, const std::vector<ArmResult>& results,
                                    const Measure& measure) {
  std::vector<std::vector<double>> samples;
  for (const ArmResult& result : results)
    samples.push_back(values_of(result, measure, /*greedy=*/false));
  std::vector<Comparison> all;
  for (const compare::Pair& pair : compare::pairs_of(samples, planned, kConfidence)) {
    const compare::Side first{results[pair.first].arm->name, samples[pair.first]},
        second{results[pair.second].arm->name, samples[pair.second]};
    const auto verdict = compare::verdict_of(pair, first, second, planned.size(), kConfidence);
    // of seeds without a value nothing is known
    const bool known = !first.values.empty() && !second.values.empty();
    const compare::Improvement above =
        known ? compare::improvement_of(first.values, second.values, kConfidence)
              : compare::Improvement{kNoValue, {kNoValue, kNoValue}};
    all.push_back({first.name, second.name, pair, above, verdict.finding, verdict.text});
  }
  return all;
}

ReportTable table_of(const std::vector<ArmResult>& results, bool greedy) {
  ReportTable table{.headings = {"arm", "seeds", "energy/1k", "95 % CI"}, .rows = {}};
  for (size_t m = 1; m < std::size(kMeasures); ++m) table.headings.push_back(kMeasures[m].title);
  for (const ArmResult& result : results) {
    const auto energy = values_of(result, kEnergy, greedy);
    if (energy.empty()) continue;
    const Spread spread = spread_or_unknown(energy);
    std::vector<std::string> row{result.arm->name, std::to_string(energy.size()),
                                 figure_text(spread.mean), interval_text(spread.interval)};
    for (size_t m = 1; m < std::size(kMeasures); ++m)
      row.push_back(figure_text(spread_or_unknown(values_of(result, kMeasures[m], greedy)).mean));
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// Whether worlds were told apart: their density is not observed everywhere.
bool has_strata(const std::vector<ArmResult>& results) {
  return std::ranges::any_of(results, [](const ArmResult& result) {
    return std::ranges::any_of(result.seeds, [](const Judgement& seed) {
      return std::ranges::any_of(seed.sampled.strata, [](const Tally& t) { return t.steps > 0; });
    });
  });
}

ReportTable strata_table(const std::vector<ArmResult>& results) {
  ReportTable table{.headings = {"arm"}, .rows = {}};
  for (const char* name : kStrata)
    table.headings.push_back(std::string(name) + ": energy/1k, deaths/1k");
  for (const ArmResult& result : results) {
    std::vector<std::string> row{result.arm->name};
    for (size_t s = 0; s < kStrata.size(); ++s) {
      std::vector<double> energy, deaths;
      for (const Judgement& seed : result.seeds) {
        const Tally& tally = seed.sampled.strata[s];
        if (tally.steps == 0) continue;
        energy.push_back(tally.per_1k(&Tally::energy));
        deaths.push_back(tally.per_1k(&Tally::deaths));
      }
      row.push_back(figure_text(spread_or_unknown(energy).mean) + ", " +
                    figure_text(spread_or_unknown(deaths).mean));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// What is said of strata: their table where there are any.
PagePart strata_part(const std::vector<ArmResult>& results) {
  if (has_strata(results)) return strata_table(results);
  return Paragraph{
      "Not told apart: what a world holds is counted by what the critic is shown of it, and "
      "env.privileged=false shows nothing."};
}

Figure rows_figure(const std::vector<ArmResult>& results, const Measure& measure,
                   const std::string& name, const std::string& title) {
  RowChart chart{.title = title, .x_label = "per 1,000 steps"};
  for (const ArmResult& result : results) {
    const auto values = values_of(result, measure, /*greedy=*/false);
    const Spread spread = spread_or_unknown(values);
    chart.rows.push_back({.name = result.arm->name,
                          .value = spread.mean,
                          .low = spread.interval.low,
                          .high = spread.interval.high,
                          .values = values});
  }
  return {name, svg(chart),
          title + ": mean over seeds, its 95 % interval (bar) and the seeds (dots)."};
}

Figure survival_figure(const std::vector<ArmResult>& results) {
  LineChart chart{.title = "Who is still alive",
                  .x_label = "steps of a life",
                  .y_label = "share",
                  .log_x = true};
  for (const ArmResult& result : results) {
    ChartLine line{.name = result.arm->name, .dashed = !result.arm->trained()};
    const auto& first = result.seeds.front().sampled.survival;
    for (size_t k = 0; k < first.size(); ++k) {
      double sum = 0;
      for (const Judgement& seed : result.seeds) sum += seed.sampled.survival[k].second;
      line.points.push_back({double(first[k].first), sum / double(result.seeds.size())});
    }
    chart.lines.push_back(std::move(line));
  }
  return {"survival", svg(chart),
          "Kaplan-Meier estimates of survival, the mean of each arm's seeds."};
}

/// Of all arms, by the energy they gain.
std::vector<PagePart> profiles(const std::vector<ArmResult>& results) {
  std::vector<std::vector<double>> values;
  for (const ArmResult& result : results)
    values.push_back(values_of(result, kEnergy, /*greedy=*/false));
  std::vector<compare::Side> sides;
  for (size_t i = 0; i < results.size(); ++i) sides.push_back({results[i].arm->name, values[i]});
  return compare::profile_parts(sides, kEnergy.title, kConfidence);
}

ChartLine line_of(const std::string& name, const std::vector<double>& x,
                  const std::vector<double>& y, const std::vector<double>& low,
                  const std::vector<double>& high) {
  ChartLine line{.name = name};
  for (size_t i = 0; i < x.size(); ++i) line.points.push_back({x[i], y[i], low[i], high[i]});
  return line;
}

Figure goodhart_figure(const ArmResult& result) {
  const MeanCurve curve = mean_curve(result.curves, kCurvePoints);
  LineChart chart{
      .title = std::string("What ") + result.arm->name + " is paid, and what it is worth",
      .x_label = "steps of training",
      .y_label = "per 1,000 steps"};
  chart.lines.push_back(
      line_of("proxy return", curve.step, curve.proxy, curve.proxy_low, curve.proxy_high));
  chart.lines.push_back(
      line_of("energy", curve.step, curve.truth, curve.truth_low, curve.truth_high));
  return {std::string("curve_") + result.arm->name, svg(chart),
          std::string("Training of ") + result.arm->name +
              ": the proxy's return and the energy gained, mean and range of the seeds."};
}

Figure training_figure(const std::vector<ArmResult>& results) {
  LineChart chart{.title = "Energy gained while training",
                  .x_label = "steps of training",
                  .y_label = "energy per 1,000 steps"};
  for (const ArmResult& result : results) {
    if (result.curves.empty()) continue;
    const MeanCurve c = mean_curve(result.curves, kCurvePoints);
    chart.lines.push_back(line_of(result.arm->name, c.step, c.truth, c.truth_low, c.truth_high));
  }
  return {"training", svg(chart), "Energy gained while training, mean and range of the seeds."};
}

/// Where an arm stands in its sweep: by the steps it was trained, or by what its settings are.
double place_of(const StudyRequest& request, const ArmResult& result) {
  return request.plan->by_steps ? double(mean_steps(result)) : result.arm->x;
}

Figure sweep_figure(const StudyRequest& request, const std::vector<ArmResult>& results) {
  LineChart chart{.title = "True and proxy return over the sweep",
                  .x_label = request.plan->sweep,
                  .y_label = "per 1,000 steps",
                  .log_x = request.plan->log_sweep,
                  .marked = true};
  for (const Measure* measure : {&kProxy, &kEnergy, &kTruth}) {
    ChartLine line{.name = measure->title};
    for (const ArmResult& result : results) {
      if (!result.arm->trained()) continue;
      const Spread s = spread_or_unknown(values_of(result, *measure, /*greedy=*/false));
      line.points.push_back({place_of(request, result), s.mean, s.interval.low, s.interval.high});
    }
    chart.lines.push_back(std::move(line));
  }
  return {"sweep", svg(chart), "Judged after training, mean over seeds and its 95 % interval."};
}

/// The Goodhart curve itself: what the proxy pays against what that is worth, as training goes on.
Figure plane_figure(const std::vector<ArmResult>& results) {
  LineChart chart{.title = "What is paid, and what it is worth, from the first steps on",
                  .x_label = "proxy return per 1,000 steps",
                  .y_label = "energy per 1,000 steps",
                  .marked = true};
  for (const ArmResult& result : results) {
    if (result.curves.empty()) continue;
    const MeanCurve c = mean_curve(result.curves, kPlanePoints);
    ChartLine& line = chart.lines.emplace_back(ChartLine{.name = result.arm->name});
    for (size_t i = 0; i < c.step.size(); ++i) line.points.push_back({c.proxy[i], c.truth[i]});
  }
  return {"plane", svg(chart),
          "Each line is a training, the mean of its seeds: to the right is more of what is paid, "
          "upwards more of what is meant."};
}

/// Where the arms of a sweep stand.
ReportTable sweep_table(const StudyRequest& request, const std::vector<ArmResult>& results) {
  ReportTable table{.headings = {"arm", request.plan->sweep, "is"}, .rows = {}, .words = true};
  for (const ArmResult& result : results)
    if (result.arm->trained())
      table.rows.push_back(
          {result.arm->name, figure_text(place_of(request, result)), result.arm->summary});
  return table;
}

/// The claims the grid was made for, each held to the intervals.
Bullets claims(const StudyRequest& request, const std::vector<ArmResult>& results) {
  Bullets out;
  const auto say = [&](bool holds, bool opposite, const std::string& what) {
    out.items.push_back(what + ": " +
                        (holds      ? "this holds."
                         : opposite ? "the opposite is shown."
                                    : "this is not shown."));
  };
  const auto interval = [&](const ArmResult& arm) {
    return spread_or_unknown(values_of(arm, kEnergy, false)).interval;
  };
  const ArmResult *truth = find(results, "ground_truth"), *proxy = find(results, "proxy");
  if (truth) {
    const Interval i = interval(*truth);
    say(i.low > 0, i.high < 0,
        "ground_truth gains energy (95 % interval " + interval_text(i) + " per 1,000 steps)");
  }
  if (proxy) {
    const Interval i = interval(*proxy);
    say(i.high<0, i.low> 0, "proxy loses energy (" + interval_text(i) + ")");
  }
  if (truth && proxy)
    for (const Comparison& c : comparisons(planned_pairs(*request.plan, results), results, kProxy))
      if (c.first == "ground_truth" && c.second == "proxy")
        say(c.finding == compare::Finding::lower, c.finding == compare::Finding::higher,
            "and proxy gets more of what it is paid than ground_truth does (difference " +
                figure_text(-c.pair.welch.difference) + ", " +
                interval_text({-c.pair.welch.interval.high, -c.pair.welch.interval.low}) + ")");
  return out;
}

/// Of each that is paid by the truth and each that is paid by the proxy alone.
std::vector<Headline> headlines(const std::vector<ArmResult>& results,
                                const std::vector<std::string>& modes) {
  const auto paid_by = [&](size_t arm, const char* mode) {
    return modes[arm] == mode && !values_of(results[arm], kEfficiency, /*greedy=*/false).empty();
  };
  std::vector<Headline> all;
  for (size_t t = 0; t < results.size(); ++t)
    for (size_t p = 0; p < results.size(); ++p)
      if (paid_by(t, "ground_truth") && paid_by(p, "proxy"))
        all.push_back(headline_of(results[t], results[p]));
  return all;
}

/// By the names of a study's arms.
std::vector<Headline> headlines(const std::vector<ArmResult>& results) {
  std::vector<std::string> modes;
  for (const ArmResult& result : results) modes.emplace_back(result.arm->name);
  return headlines(results, modes);
}

Bullets headline_texts(const std::vector<Headline>& all) {
  const auto interval = [](const Ratio& ratio) {
    return std::isfinite(ratio.interval.low)
               ? " (95 % interval " + interval_text(ratio.interval) + ")"
               : std::string(" (without an interval, which two seeds each would have)");
  };
  Bullets out;
  for (const Headline& h : all) {
    out.items.push_back("Goodhart failure index: " + h.proxy + " loses " +
                        figure_text(h.failure.value) + " of the efficiency of " + h.truth +
                        interval(h.failure));
    out.items.push_back("survival collapse: a mean life of " + h.truth + " is " +
                        figure_text(h.collapse.value) + " times that of " + h.proxy +
                        interval(h.collapse));
  }
  return out;
}

Json json_of(const Ratio& ratio) {
  return {{"value", finite_or_null<Json>(ratio.value)},
          {"interval",
           {finite_or_null<Json>(ratio.interval.low), finite_or_null<Json>(ratio.interval.high)}}};
}

Json json_of(const std::vector<Headline>& all) {
  Json json = Json::array();
  for (const Headline& h : all)
    json.push_back({{"truth", h.truth},
                    {"proxy", h.proxy},
                    {"failure_index", json_of(h.failure)},
                    {"survival_collapse", json_of(h.collapse)}});
  return json;
}

ReportTable comparison_table(const std::vector<Comparison>& all) {
  ReportTable table{.headings = {"first", "second", "difference", "95 % CI", "Holm p", "Hedges g",
                                 "P above", "verdict"},
                    .rows = {},
                    .words = true};
  for (const Comparison& c : all)
    table.rows.push_back({c.first, c.second, figure_text(c.pair.welch.difference),
                          interval_text(c.pair.welch.interval), figure_text(c.pair.holm_p),
                          figure_text(c.pair.effect.g), figure_text(c.above.probability),
                          c.verdict});
  return table;
}

/// What of these pairs can be said, by each figure that is tested.
void add_comparisons(Page& page, const ArmPairs& planned, const std::vector<ArmResult>& results) {
  page.parts.emplace_back(Heading{"Compared"});
  for (const Measure* measure : kTested) {
    const auto all = comparisons(planned, results, *measure);
    if (all.empty()) continue;
    page.parts.emplace_back(
        Paragraph{std::string("By ") + measure->title +
                  ": Welch's test over seeds, all of this table together (Holm); \"higher\" only "
                  "where the intervals of the two means are apart as well."});
    page.parts.emplace_back(comparison_table(all));
  }
}

Json json_of(const ArmPairs& planned, const std::vector<ArmResult>& results) {
  Json json = Json::object();
  for (const Measure* measure : kTested)
    for (const Comparison& c : comparisons(planned, results, *measure))
      json[measure->name].push_back(
          {{"first", c.first},
           {"second", c.second},
           {"difference", finite_or_null<Json>(c.pair.welch.difference)},
           {"interval",
            {finite_or_null<Json>(c.pair.welch.interval.low),
             finite_or_null<Json>(c.pair.welch.interval.high)}},
           {"welch_p", finite_or_null<Json>(c.pair.welch.p)},
           {"holm_p", finite_or_null<Json>(c.pair.holm_p)},
           {"hedges_g", finite_or_null<Json>(c.pair.effect.g)},
           {"probability_of_improvement", finite_or_null<Json>(c.above.probability)},
           {"probability_of_improvement_interval",
            {finite_or_null<Json>(c.above.interval.low),
             finite_or_null<Json>(c.above.interval.high)}},
           {"verdict", c.verdict}});
  return json;
}

ReportTable audit_table(const std::vector<ArmResult>& results) {
  ReportTable table{.headings = {"arm", "left at step", "energy/1k there", "95 % CI",
                                 "energy/1k at the end", "95 % CI"},
                    .rows = {}};
  for (const ArmResult& result : results) {
    std::vector<double> step, stopped, last;
    for (const auto& curve : result.curves) {
      if (curve.size() < 2) continue;
      const Audit audit = audit_of(curve);
      step.push_back(audit.step), stopped.push_back(audit.stopped), last.push_back(audit.last);
    }
    if (step.empty()) continue;
    const Spread there = spread_of(stopped, kConfidence), end = spread_of(last, kConfidence);
    table.rows.push_back({result.arm->name, figure_text(spread_of(step).mean),
                          figure_text(there.mean), interval_text(there.interval),
                          figure_text(end.mean), interval_text(end.interval)});
  }
  return table;
}

std::string judged_how(const Protocol& protocol) {
  return std::to_string(protocol.envs) + " worlds for " + std::to_string(protocol.steps) +
         " steps each, energy live, no time limit, food and poison as many as in training; who "
         "dies begins anew elsewhere in the same world.";
}

std::string how_it_was_made(const StudyRequest& request, const std::vector<ArmResult>& results) {
  int64_t least = 0, most = 0;
  for (const ArmResult& result : results) {
    for (const int64_t steps : result.steps) {
      least = least ? std::min(least, steps) : steps;
      most = std::max(most, steps);
    }
  }
  const std::string steps =
      (least < most ? std::to_string(least) + " to " : "") + std::to_string(most);
  return "PPO, " + counted(request.seeds, "training seed") + " an arm, " + steps +
         " steps each. Then " + judged_how(request.protocol) +
         " A scripted player is not trained: its seeds are of worlds alone. Actions are sampled "
         "unless it is said otherwise.";
}

}  // namespace

Audit audit_of(const std::vector<TrainedPoint>& curve) {
  size_t best = 0;
  for (size_t i = 1; i + 1 < curve.size(); ++i)
    if (curve[i].truth > curve[best].truth) best = i;
  return {curve[best].step, curve[best + 1].truth, curve.back().truth};
}

MeanCurve mean_curve(const std::vector<std::vector<TrainedPoint>>& curves, size_t points) {
  size_t rows = std::numeric_limits<size_t>::max();
  for (const auto& curve : curves) rows = std::min(rows, curve.size());
  MeanCurve out;
  const size_t stretches = std::min(points, rows);
  for (size_t s = 0; s < stretches; ++s) {
    const size_t begin = s * rows / stretches, end = (s + 1) * rows / stretches;
    // of each seed, the mean of the stretch
    std::vector<double> truth, proxy;
    for (const auto& curve : curves) {
      double t = 0, p = 0;
      for (size_t i = begin; i < end; ++i) t += curve[i].truth, p += curve[i].proxy;
      truth.push_back(t / double(end - begin)), proxy.push_back(p / double(end - begin));
    }
    const auto mean = [](const std::vector<double>& v) {
      return std::accumulate(v.begin(), v.end(), 0.0) / double(v.size());
    };
    out.step.push_back(curves.front()[end - 1].step);
    out.truth.push_back(mean(truth)), out.proxy.push_back(mean(proxy));
    out.truth_low.push_back(std::ranges::min(truth));
    out.truth_high.push_back(std::ranges::max(truth));
    out.proxy_low.push_back(std::ranges::min(proxy));
    out.proxy_high.push_back(std::ranges::max(proxy));
  }
  return out;
}

Page report_of(const StudyRequest& request, const std::vector<ArmResult>& results,
               const std::string& command) {
  Page page{.title = std::string("Study: ") + request.plan->name, .parts = {}};
  const auto add = [&](auto part) { page.parts.emplace_back(std::move(part)); };
  add(Paragraph{std::string(request.plan->summary) + "."});
  add(CommandLine{command});
  add(Paragraph{how_it_was_made(request, results)});
  Bullets found = claims(request, results);
  for (std::string& item : headline_texts(headlines(results)).items)
    found.items.push_back(item + ".");
  if (!found.items.empty()) add(found);

  add(Heading{"What they gain"});
  add(table_of(results, /*greedy=*/false));
  add(Paragraph{kMeaning});
  add(rows_figure(results, kEnergy, "energy", "Energy gained"));
  for (PagePart& part : profiles(results)) page.parts.push_back(std::move(part));
  if (request.plan->sweep) {
    add(sweep_figure(request, results));
    add(sweep_table(request, results));
  }
  add(survival_figure(results));
  if (const ReportTable greedy = table_of(results, /*greedy=*/true); !greedy.rows.empty()) {
    add(Paragraph{kGreedyTitle});
    add(greedy);
  }

  add_comparisons(page, planned_pairs(*request.plan, results), results);

  const bool trained = std::ranges::any_of(results, [](const ArmResult& r) {
    return std::ranges::any_of(r.curves, [](const auto& curve) { return !curve.empty(); });
  });
  if (trained) {
    add(Heading{"While they learn"});
    for (const char* name : {"proxy", "proxy_mortal", "unmended"})
      if (const ArmResult* arm = find(results, name); arm && !arm->curves.empty())
        add(goodhart_figure(*arm));
    if (request.plan->sweep) add(plane_figure(results));
    add(training_figure(results));
    for (const ArmResult& result : results)
      if (result.arm->trained() && result.curves.size() < result.seeds.size())
        add(Paragraph{std::string(result.arm->name) + ": of " +
                      std::to_string(result.seeds.size()) + " seeds " +
                      std::to_string(result.curves.size()) +
                      " have their curve here; the metrics of the others cannot be read."});
    if (const ReportTable audits = audit_table(results); !audits.rows.empty()) {
      add(Paragraph{
          "Stopping early by an audit of the truth: each run is left where a row of its metrics "
          "showed the most energy gained, and judged by the row after, which did not choose it. "
          "Figures are of the worlds that each arm trains in."});
      add(audits);
    }
  }

  add(Heading{kStrataTitle});
  page.parts.push_back(strata_part(results));
  return page;
}

Headline headline_of(const ArmResult& truth, const ArmResult& proxy) {
  const auto ratio = [](const ArmResult& a, const ArmResult& b, const Measure& measure) {
    return ratio_of(values_of(a, measure, /*greedy=*/false),
                    values_of(b, measure, /*greedy=*/false), kConfidence);
  };
  const Ratio kept = ratio(proxy, truth, kEfficiency);
  return {.truth = truth.arm->name,
          .proxy = proxy.arm->name,
          .failure = {1 - kept.value, {1 - kept.interval.high, 1 - kept.interval.low}},
          .collapse = ratio(truth, proxy, kLife)};
}

Page page_of_judged(const std::vector<ArmResult>& results, const std::vector<std::string>& modes,
                    const Protocol& protocol, const std::string& command) {
  Page page{.title = "Judged by survival", .parts = {}};
  const auto add = [&](auto part) { page.parts.emplace_back(std::move(part)); };
  add(CommandLine{command});
  add(Paragraph{judged_how(protocol)});
  add(table_of(results, /*greedy=*/false));
  add(Paragraph{kMeaning});
  if (const auto all = headlines(results, modes); !all.empty()) add(headline_texts(all));
  for (PagePart& part : profiles(results)) page.parts.push_back(std::move(part));
  add(survival_figure(results));
  if (const ReportTable greedy = table_of(results, /*greedy=*/true); !greedy.rows.empty()) {
    add(Paragraph{kGreedyTitle});
    add(greedy);
  }
  if (results.size() > 1) {
    const auto tested = std::ranges::count_if(
        results, [](const ArmResult& result) { return result.seeds.size() > 1; });
    if (tested > 1) add_comparisons(page, all_pairs(results.size()), results);
    else
      add(Paragraph{
          "Nothing is tested: that takes two runs on each side, as a folder of seeds has."});
  }
  add(Heading{kStrataTitle});
  page.parts.push_back(strata_part(results));
  return page;
}

Json figures_of(const ArmResult& result) {
  Json figures = Json::object();
  for (const bool greedy : {false, true})
    for (const Measure& measure : kMeasures) {
      const auto values = values_of(result, measure, greedy);
      if (values.empty()) continue;
      const Spread s = spread_of(values, kConfidence);
      figures[greedy ? "greedy" : "sampled"][measure.name] = {
          {"values", values},
          {"mean", s.mean},
          {"std", finite_or_null<Json>(s.deviation)},
          {"interval",
           {finite_or_null<Json>(s.interval.low), finite_or_null<Json>(s.interval.high)}},
          {"performance_profile", compare::profile_json(values, kConfidence)}};
    }
  return figures;
}

Json json_of(const StudyRequest& request, const std::vector<ArmResult>& results) {
  Json json{{"study", request.plan->name},
            {"arms", Json::object()},
            {"compared", json_of(planned_pairs(*request.plan, results), results)}};
  for (const ArmResult& result : results) {
    Json& arm = json["arms"][result.arm->name];
    arm["steps"] = mean_steps(result);
    arm["steps_of_seeds"] = result.steps;
    arm.update(figures_of(result));
  }
  if (const auto all = headlines(results); !all.empty()) json["headlines"] = json_of(all);
  return json;
}

Json json_of_judged(const std::vector<ArmResult>& results, const std::vector<std::string>& modes) {
  Json json{{"figures", Json::object()}};
  for (const ArmResult& result : results) json["figures"][result.arm->name] = figures_of(result);
  json["compared"] = json_of(all_pairs(results.size()), results);
  json["headlines"] = json_of(headlines(results, modes));
  return json;
}

}  // namespace maglev::verbs::study
