#include "verbs/rank/over_seeds.h"

#include <string>

#include "base/core/printed.h"
#include "base/statistics/samples.h"
#include "verbs/json_number.h"

namespace maglev::verbs::rank {
namespace {

using Json = nlohmann::ordered_json;

struct Heading {
  const char *figure, *text;
};
constexpr Heading kFigures[] = {{"mrr", "MRR"},
                                {"hits1", "Hits@1"},
                                {"hits3", "Hits@3"},
                                {"hits10", "Hits@10"},
                                {"auc_pr", "AUC-PR"},
                                {"proved_true", "true proved"},
                                {"proved_false", "false proved"}};
constexpr const char* kOfProofs[] = {"proof", "joined"};

std::string digits(const Json& number) {
  return number.is_number() ? printed("%.3f", number.get<double>()) : "-";
}

}  // namespace

Json over_seeds(const std::vector<Json>& reports) {
  Json results = Json::object();
  for (const char* scoring : kOfProofs)
    for (const auto& [figure, text] : kFigures) {
      std::vector<double> values;
      for (const Json& report : reports) {
        const Json& scores = report.at("scores");
        if (scores.contains(scoring) && scores.at(scoring).at(figure).is_number())
          values.push_back(scores.at(scoring).at(figure));
      }
      if (values.empty()) continue;
      const Spread spread = spread_of(values);
      results[scoring][figure] = {{"seeds", values.size()},
                                  {"mean", spread.mean},
                                  {"std", finite_or_null<Json>(spread.deviation)},
                                  {"interval_95",
                                   {finite_or_null<Json>(spread.interval.low),
                                    finite_or_null<Json>(spread.interval.high)}}};
    }
  return results;
}

Table over_seeds_table(const Json& results) {
  Table table({"scores", "figure", ">seeds", ">mean", ">deviation", ">95 % (Student's t)"});
  for (const auto& [scoring, figures] : results.items())
    for (const auto& [figure, text] : kFigures) {
      if (!figures.contains(figure)) continue;
      const Json& row = figures.at(figure);
      const Json& interval = row.at("interval_95");
      table.add({scoring, text, row.at("seeds").dump(), digits(row.at("mean")),
                 digits(row.at("std")), digits(interval[0]) + " to " + digits(interval[1])});
    }
  return table;
}

}  // namespace maglev::verbs::rank
