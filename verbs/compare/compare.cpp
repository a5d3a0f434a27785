// maglev compare: whether groups of runs differ, by their seeds.

#include <cmath>
#include <cstdio>
#include <map>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/printed.h"
#include "base/core/terminal.h"
#include "base/statistics/samples.h"
#include "verbs/arguments.h"
#include "verbs/compare/groups.h"
#include "verbs/compare/profile.h"
#include "verbs/compare/verdict.h"
#include "verbs/json_number.h"
#include "verbs/notes.h"
#include "verbs/study/page.h"
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
                {"--json", "", "print JSON instead of tables"},
                {"--html", "FILE", "the tables as a page, too, with a performance profile drawn"},
                {"--overwrite", "", "replace FILE where it is there already"}},
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

/// A table for people, in the terminal and on a page. Headings as Table takes them.
struct Listing {
  std::vector<std::string> headings;
  std::vector<std::vector<std::string>> rows = {};

  Table table() const {
    Table table(headings);
    for (const auto& row : rows) table.add(row);
    return table;
  }
  study::ReportTable on_page() const {
    study::ReportTable table{.headings = headings, .rows = rows, .words = true};
    for (std::string& heading : table.headings)
      if (heading.starts_with('>')) heading.erase(0, 1);
    return table;
  }
};

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
          {"interquartile_interval", bounds(s.middle_interval)},
          {"performance_profile", profile_json(group.values, kConfidence)}};
}

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

std::string metric_text(const Metric& metric) {
  return metric.column + ", " +
         (metric.over > 0 ? "mean over the last " +
                                std::to_string(int(std::lround(100 * metric.over))) + " % of steps"
                          : "last row");
}

// what stands above the tables: in what the groups are not alike, and what they lack
std::vector<std::string> notes_of(const std::vector<Group>& groups, const Differing& differing) {
  const Group& front = groups.front();
  Differing told = differing;
  std::vector<std::string> notes;
  for (const Group& group : groups) {
    if (group.env != front.env || group.algo != front.algo || group.steps != front.steps) {
      // how long they were to train is no news besides
      told.erase("train.steps");
      notes.push_back(group.name + " trained " + group.algo + " on " + group.env + " for " +
                      group.steps + " steps, " + front.name + " " + front.algo + " on " +
                      front.env + " for " + front.steps);
    }
    if (!group.unfinished.empty()) notes.push_back(group.unfinished + " has not finished");
    notes.insert(notes.end(), group.notes.begin(), group.notes.end());
  }
  if (!told.empty()) notes.push_back("settings that differ: " + differing_text(told));
  return notes;
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(entry(), words, grammar());
  if (arguments.help()) return arguments.print_help();
  if (arguments.has("--overwrite") && !arguments.has("--html"))
    throw Error("[compare] --overwrite goes with --html FILE");
  const auto html = arguments.output("--html");
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
  Listing alone{
      {"", ">steps", ">seeds", ">mean", ">std", "95 % CI", ">IQM", "95 % CI (bootstrap)", "runs"}};
  std::vector<std::vector<double>> samples;
  for (const Group& group : groups) {
    const Summary summary = summary_of(group);
    alone.rows.push_back(group_row(group, summary, label(samples.size())));
    report["groups"].push_back(group_json(group, summary));
    samples.push_back(group.values);
  }

  // and beside each other
  Listing beside{{"pair", ">difference", "95 % CI", ">Welch p", ">Holm p", ">Hedges g", ">P above",
                  ">detectable g", "verdict"}};
  report["pairs"] = Json::array();
  const std::vector<Pair> pairs = pairs_of(samples, kConfidence);
  const auto side = [&](size_t group) { return Side{label(group), groups[group].values}; };
  for (const Pair& pair : pairs) {
    const Verdict verdict =
        verdict_of(pair, side(pair.first), side(pair.second), pairs.size(), kConfidence);
    const Improvement above =
        improvement_of(samples[pair.first], samples[pair.second], kConfidence);
    beside.rows.push_back(pair_row(pair, above, verdict));
    report["pairs"].push_back(pair_json(pair, above, verdict));
  }

  const std::string head = metric_text(metric);
  const std::vector<std::string> notes = notes_of(groups, differing);
  if (html) {
    std::vector<Side> sides;
    for (size_t group = 0; group < groups.size(); ++group) sides.push_back(side(group));
    study::Page page{.title = "Groups of runs compared", .parts = {study::Paragraph{head + "."}}};
    if (!notes.empty()) page.parts.emplace_back(study::Bullets{notes});
    page.parts.emplace_back(alone.on_page());
    for (auto& part : profile_parts(sides, metric.column, kConfidence))
      page.parts.push_back(std::move(part));
    if (!pairs.empty()) page.parts.emplace_back(beside.on_page());
    write_atomic(*html, study::html(page));
    print_notes({"a page of it: " + *html});
    if (const std::string line = without_profile(sides); !line.empty()) print_notes({line});
  }
  if (arguments.has("--json")) {
    print(report.dump(2) + "\n");
    return 0;
  }
  const Terminal terminal = probe_terminal(STDOUT_FILENO);
  print(head + "\n");
  for (const std::string& note : notes) print("note: " + note + "\n");
  print(alone.table().text(terminal));
  if (groups.size() > 1) print("\n" + beside.table().text(terminal));
  return 0;
}

}  // namespace

VerbEntry entry() {
  return {.name = "compare",
          .summary = "whether groups of runs differ: tests and intervals over their seeds",
          .usage =
              "compare <run or seeds>[,...] [<run or seeds>[,...] ...] [--metric NAME] "
              "[--over PERCENT] [--json] [--html FILE]",
          .run = run};
}

}  // namespace maglev::verbs::compare
