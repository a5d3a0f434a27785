// maglev compare: whether groups of runs differ, by their seeds.

#include <cmath>
#include <cstdio>
#include <map>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/printed.h"
#include "base/core/terminal.h"
#include "base/statistics/samples.h"
#include "verbs/arguments.h"
#include "verbs/compare/groups.h"
#include "verbs/compare/verdict.h"
#include "verbs/json_number.h"
#include "verbs/table.h"
#include "verbs/verb.h"

namespace maglev::verbs::compare {

VerbEntry entry();

namespace {

using Json = nlohmann::ordered_json;

constexpr double kConfidence = 0.95;

Grammar grammar() {
  return {
      .flags = {{"--metric", "NAME",
                 "a column of metrics.jsonl (default: eval/return_mean where every run has "
                 "some, else return_mean)"},
                {"--over", "PERCENT",
                 "mean over the last PERCENT of each run's steps; 0: its last row (default 10)"},
                {"--json", "", "print JSON instead of tables"}},
      .least = 1,
      .most = 64,
      .names = "<runs> [<runs> ...]"};
}

// groups in the order they were given: A to Z, then by number
std::string label(size_t group) {
  return group < 26 ? std::string(1, char('A' + group)) : std::to_string(group + 1);
}

std::string number_text(double x) {
  if (std::isnan(x)) return "-";
  return printed(std::abs(x) < 1 ? "%.3g" : "%.2f", x);
}

std::string interval_text(const Interval& interval) {
  if (std::isnan(interval.low)) return "-";
  return number_text(interval.low) + " to " + number_text(interval.high);
}

Json bounds(const Interval& interval) {
  return {finite_or_null<Json>(interval.low), finite_or_null<Json>(interval.high)};
}

struct Summary {
  Spread spread;
  double middle;  ///< interquartile mean
  Interval middle_interval;
};

Summary summary_of(const Group& group) {
  return {spread_of(group.values, kConfidence), interquartile_mean(group.values),
          interquartile_interval(group.values, kConfidence)};
}

const char* finding_name(Finding finding) {
  switch (finding) {
    case Finding::higher:
      return "higher";
    case Finding::lower:
      return "lower";
    case Finding::none:
      return "none";
    case Finding::too_few:
      return "too_few";
  }
  return "";
}

using Differing = std::map<std::string, std::vector<std::string>>;

// "ppo.lr (A 0.0003, B 0.01), ppo.epochs (A 4, B 10) and 2 more (--json has all)"
std::string differing_text(const Differing& differing) {
  constexpr size_t kMostNamed = 8;
  std::string text;
  size_t named = 0;
  for (const auto& [name, values] : differing) {
    if (named == kMostNamed) {
      text += " and " + std::to_string(differing.size() - named) + " more (--json has all)";
      break;
    }
    text += (named++ > 0 ? ", " : "") + name + " (";
    for (size_t group = 0; group < values.size(); ++group)
      text += (group > 0 ? ", " : "") + label(group) + " " +
              (values[group].empty() ? "none" : values[group]);
    text += ")";
  }
  return text;
}

// each group by itself: a row of the table, and what --json has of it
std::vector<std::string> group_row(const Group& group, const Summary& s, const std::string& name) {
  return {name,
          group.steps,
          std::to_string(group.values.size()),
          number_text(s.spread.mean),
          number_text(s.spread.deviation),
          interval_text(s.spread.interval),
          number_text(s.middle),
          interval_text(s.middle_interval),
          group.name + ", " + group.algo + " on " + group.env};
}

Json group_json(const Group& group, const Summary& s) {
  return {{"runs", group.runs},
          {"algorithm", group.algo},
          {"environment", group.env},
          {"values", group.values},
          {"notes", group.notes},
          {"mean", finite_or_null<Json>(s.spread.mean)},
          {"std", finite_or_null<Json>(s.spread.deviation)},
          {"interval", bounds(s.spread.interval)},
          {"interquartile_mean", finite_or_null<Json>(s.middle)},
          {"interquartile_interval", bounds(s.middle_interval)}};
}

// how often a run of the first is above one of the second
struct Improvement {
  double probability;
  Interval interval;
};

std::vector<std::string> pair_row(const Pair& pair, const Improvement& above,
                                  const Verdict& verdict) {
  return {label(pair.first) + " - " + label(pair.second),
          number_text(pair.welch.difference),
          interval_text(pair.welch.interval),
          number_text(pair.welch.p),
          number_text(pair.holm_p),
          number_text(pair.effect.g),
          number_text(above.probability),
          number_text(verdict.power.detectable),
          verdict.text};
}

Json pair_json(const Pair& pair, const Improvement& above, const Verdict& verdict) {
  const PowerAnalysis& power = verdict.power;
  return {{"first", pair.first},
          {"second", pair.second},
          {"difference", finite_or_null<Json>(pair.welch.difference)},
          {"interval", bounds(pair.welch.interval)},
          {"t", finite_or_null<Json>(pair.welch.t)},
          {"degrees", finite_or_null<Json>(pair.welch.degrees)},
          {"welch_p", finite_or_null<Json>(pair.welch.p)},
          {"holm_p", finite_or_null<Json>(pair.holm_p)},
          {"hedges_g", finite_or_null<Json>(pair.effect.g)},
          {"hedges_g_interval", bounds(pair.effect.interval)},
          {"probability_of_improvement", above.probability},
          {"probability_of_improvement_interval", bounds(above.interval)},
          {"power", finite_or_null<Json>(power.achieved)},
          {"detectable_effect", finite_or_null<Json>(power.detectable)},
          {"needed_seeds", power.needed > 0 ? Json(power.needed) : Json()},
          {"finding", finding_name(verdict.finding)},
          {"verdict", verdict.text}};
}

// what stands above the tables: the metric, and in what the groups are not alike
void print_head(const Metric& metric, const std::vector<Group>& groups,
                const Differing& differing) {
  std::printf("%s, %s\n", metric.column.c_str(),
              metric.over > 0
                  ? ("mean over the last " + std::to_string(int(std::lround(100 * metric.over))) +
                     " % of steps")
                        .c_str()
                  : "last row");
  const Group& front = groups.front();
  Differing told = differing;
  for (const Group& group : groups) {
    if (group.env != front.env || group.algo != front.algo || group.steps != front.steps) {
      // how long they were to train is no news besides
      told.erase("train.steps");
      std::printf("note: %s trained %s for %s steps, %s %s for %s\n", group.name.c_str(),
                  (group.algo + " on " + group.env).c_str(), group.steps.c_str(),
                  front.name.c_str(), (front.algo + " on " + front.env).c_str(),
                  front.steps.c_str());
    }
    if (!group.unfinished.empty())
      std::printf("note: %s has not finished\n", group.unfinished.c_str());
    for (const std::string& note : group.notes) std::printf("note: %s\n", note.c_str());
  }
  if (!told.empty()) std::printf("note: settings that differ: %s\n", differing_text(told).c_str());
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(entry(), words, grammar());
  if (arguments.help()) return arguments.print_help();
  std::vector<Group> groups = groups_of(arguments.positional());
  const Metric metric{.column = arguments.value("--metric").value_or(usual_column(groups)),
                      .over = double(arguments.integer("--over", 0, 100).value_or(10)) / 100};
  read_values(groups, metric);

  // each by itself
  const Differing differing = differing_settings(groups);
  Json report{{"metric", metric.column},
              {"over", metric.over},
              {"confidence", kConfidence},
              {"differing_settings", differing}};
  // names, as long as they may be, stand last: a terminal without room for them has them below
  Table table(
      {"", ">steps", ">seeds", ">mean", ">std", "95 % CI", ">IQM", "95 % CI (bootstrap)", "runs"});
  std::vector<std::vector<double>> samples;
  for (const Group& group : groups) {
    const Summary summary = summary_of(group);
    table.add(group_row(group, summary, label(samples.size())));
    report["groups"].push_back(group_json(group, summary));
    samples.push_back(group.values);
  }

  // and beside each other
  Table beside({"pair", ">difference", "95 % CI", ">Welch p", ">Holm p", ">Hedges g", ">P above",
                ">detectable g", "verdict"});
  report["pairs"] = Json::array();
  const std::vector<Pair> pairs = pairs_of(samples, kConfidence);
  const auto side = [&](size_t group) { return Side{label(group), groups[group].values}; };
  for (const Pair& pair : pairs) {
    const Verdict verdict =
        verdict_of(pair, side(pair.first), side(pair.second), pairs.size(), kConfidence);
    const auto &first = samples[pair.first], &second = samples[pair.second];
    const Improvement above{probability_of_improvement(first, second),
                            improvement_interval(first, second, kConfidence)};
    beside.add(pair_row(pair, above, verdict));
    report["pairs"].push_back(pair_json(pair, above, verdict));
  }
  if (arguments.has("--json")) {
    print(report.dump(2) + "\n");
    return 0;
  }
  const Terminal terminal = probe_terminal(STDOUT_FILENO);
  print_head(metric, groups, differing);
  print(table.text(terminal));
  if (groups.size() > 1) print("\n" + beside.text(terminal));
  return 0;
}

}  // namespace

VerbEntry entry() {
  return {.name = "compare",
          .summary = "whether groups of runs differ: tests and intervals over their seeds",
          .usage =
              "compare <run or seeds>[,...] [<run or seeds>[,...] ...] [--metric NAME] "
              "[--over PERCENT] [--json]",
          .run = run};
}

}  // namespace maglev::verbs::compare
