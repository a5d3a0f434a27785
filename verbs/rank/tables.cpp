#include "verbs/rank/tables.h"

#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "base/core/printed.h"
#include "base/trace/span.h"
#include "verbs/json_number.h"

namespace maglev::verbs::rank {
namespace {

using Json = nlohmann::ordered_json;

std::string text(const char* format, double x) {
  return std::isfinite(x) ? printed(format, x) : "-";
}

std::vector<std::pair<std::string, std::vector<size_t>>> groups_of(
    const Ranking& r, By by, const datalog::Program& program) {
  // by number, so that a depth of 10 comes behind 2; what is unknown last
  std::map<std::pair<int64_t, std::string>, std::vector<size_t>> groups;
  for (size_t q = 0; q < r.questions.size(); ++q) {
    const Question& question = r.questions[q];
    const std::string name = by == By::mode ? (question.head ? "head" : "tail")
                             : by == By::predicate
                                 ? program.predicates.of(question.candidates[0].predicate)
                             : question.depth < 0 ? "unknown"
                                                  : std::to_string(question.depth);
    const bool unknown = by == By::depth && question.depth < 0;
    groups[{unknown ? INT64_MAX : by == By::depth ? question.depth : 0, name}].push_back(q);
  }
  std::vector<std::pair<std::string, std::vector<size_t>>> named;
  for (auto& [key, which] : groups) named.emplace_back(key.second, std::move(which));
  return named;
}

std::vector<std::string> cells(const Figures& f) {
  return {std::to_string(f.questions),
          text("%.3f", f.rank.mrr),
          text("%.3f", f.mrr.low) + " to " + text("%.3f", f.mrr.high),
          text("%.3f", f.rank.hits1),
          text("%.3f", f.rank.hits3),
          text("%.3f", f.rank.hits10),
          text("%.3f", f.auc_pr),
          text("%.1f %%", 100 * f.proved_true),
          text("%.1f %%", 100 * f.proved_false)};
}
const std::vector<std::string> kHeadings{">questions", ">MRR",         ">95 %",
                                         ">Hits@1",    ">@3",          ">@10",
                                         ">AUC-PR",    ">true proved", ">false proved"};

Json to_json(const Figures& f) {
  return {{"questions", f.questions},
          {"mrr", f.rank.mrr},
          {"mrr_interval", {finite_or_null<Json>(f.mrr.low), finite_or_null<Json>(f.mrr.high)}},
          {"hits1", f.rank.hits1},
          {"hits3", f.rank.hits3},
          {"hits10", f.rank.hits10},
          {"auc_pr", finite_or_null<Json>(f.auc_pr)},
          {"proved_true", finite_or_null<Json>(f.proved_true)},
          {"proved_false", finite_or_null<Json>(f.proved_false)}};
}

/// Each group counts alike, however many questions it has; what is not known of one is left out.
Figures mean_of(const std::vector<Figures>& groups) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  Figures mean{.questions = 0, .mrr = {kUnknown, kUnknown}};
  for (const Figures& f : groups) mean.questions += f.questions;
  const auto over = [&](auto figure) {
    double sum = 0, count = 0;
    for (const Figures& f : groups)
      if (const double value = figure(f); std::isfinite(value)) sum += value, ++count;
    return count > 0 ? sum / count : kUnknown;
  };
  mean.rank.mrr = over([](const Figures& f) { return f.rank.mrr; });
  mean.rank.hits1 = over([](const Figures& f) { return f.rank.hits1; });
  mean.rank.hits3 = over([](const Figures& f) { return f.rank.hits3; });
  mean.rank.hits10 = over([](const Figures& f) { return f.rank.hits10; });
  mean.auc_pr = over([](const Figures& f) { return f.auc_pr; });
  mean.proved_true = over([](const Figures& f) { return f.proved_true; });
  mean.proved_false = over([](const Figures& f) { return f.proved_false; });
  return mean;
}

/// A CSV field.
std::string quoted(const std::string& name) {
  if (name.find_first_of(",\"\n") == std::string::npos) return name;
  std::string out = "\"";
  for (char c : name) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

}  // namespace

std::string csv_of(const Ranking& r, const std::vector<Scoring>& scorings,
                   const datalog::Program& program) {
  const auto span = maglev::trace::stage("csv");
  std::string csv =
      "question,mode,predicate,first,second,true,tried,proved,log_prob,log_confidence,steps";
  for (const Scoring& scoring : scorings) {
    csv += "," + scoring.name;
    if (!scoring.ties_by.empty()) csv += "," + scoring.name + "_tie";
  }
  csv += "\n";
  for (size_t q = 0; q < r.questions.size(); ++q)
    for (size_t c = 0; c < r.questions[q].candidates.size(); ++c) {
      const datalog::Atom& atom = r.questions[q].candidates[c];
      const Trial trial = r.trials.empty() ? Trial{} : r.trials[q][c];
      csv += std::to_string(q) + (r.questions[q].head ? ",head," : ",tail,") +
             quoted(program.predicates.of(atom.predicate)) + "," +
             quoted(program.constants.of(atom.first)) + "," +
             quoted(program.constants.of(atom.second)) + (c ? ",0," : ",1,") +
             (trial.tried ? "1," : "0,") + (trial.proved ? "1," : "0,") +
             text("%.6g", double(trial.log_prob)) + "," + text("%.6g", trial.log_confidence) + "," +
             std::to_string(trial.steps);
      for (const Scoring& scoring : scorings) {
        csv += "," + text("%.17g", scoring.scores[q][c]);
        if (!scoring.ties_by.empty()) csv += "," + text("%.17g", scoring.ties_by[q][c]);
      }
      csv += "\n";
    }
  return csv;
}

Table figures_table(const Ranking& r, const std::vector<Scoring>& scorings,
                    const datalog::Program& program, const Counting& counting, Json& report) {
  const auto by = counting.by;
  std::vector<std::string> headings{"scores"};
  if (by) headings.insert(headings.begin(), names_of(*by)[size_t(*by)]);
  headings.insert(headings.end(), kHeadings.begin(), kHeadings.end());
  Table table(headings);
  std::vector<size_t> all(r.questions.size());
  std::iota(all.begin(), all.end(), 0);
  const std::vector<std::vector<Trial>> no_trials;
  for (const Scoring& scoring : scorings) {
    const auto span = maglev::trace::stage("figures");
    const Scoring places = ties_broken(scoring);
    const std::vector<double> ranks = ranks_of(places, counting.ties, counting.seed);
    // an embedding proves nothing, and neither do rules without a search
    const bool proves = scoring.name != "embedding" && scoring.name != "rules";
    const auto& trials = proves ? r.trials : no_trials;
    const auto add = [&](const std::string& group, const Figures& f, Json& into) {
      std::vector<std::string> row{scoring.name};
      if (by) row.insert(row.begin(), group);
      const auto rest = cells(f);
      row.insert(row.end(), rest.begin(), rest.end());
      table.add(row);
      into = to_json(f);
    };
    const auto of = [&](const std::vector<size_t>& which) {
      return figures_of(which, r.questions, places, ranks, trials);
    };
    add("all", of(all), report["scores"][scoring.name]);
    if (!by) continue;
    std::vector<Figures> groups;
    for (const auto& [name, which] : groups_of(r, *by, program))
      add(name, groups.emplace_back(of(which)), report["by"][name][scoring.name]);
    if (by == By::predicate)
      add("mean of predicates", mean_of(groups), report["macro"][scoring.name]);
  }
  return table;
}

}  // namespace maglev::verbs::rank
