#include "verbs/eval/over_seeds.h"

#include <utility>

#include "base/core/printed.h"
#include "base/statistics/samples.h"
#include "verbs/json_number.h"

namespace maglev::verbs::eval {
namespace {

// whether two results are of the same actions against the same one
bool judged_alike(const nlohmann::json& a, const nlohmann::json& b) {
  return a.at("actions") == b.at("actions") &&
         a.value("against", std::string()) == b.value("against", std::string());
}

std::string two_digits(const nlohmann::json& number) {
  return printed("%.2f", number.get<double>());
}

}  // namespace

nlohmann::json over_seeds(const std::vector<nlohmann::json>& reports) {
  nlohmann::json all = nlohmann::json::array();
  for (const nlohmann::json& way : reports.front().at("results")) {
    std::vector<double> means;
    for (const nlohmann::json& report : reports)
      for (const nlohmann::json& result : report.at("results"))
        if (judged_alike(result, way) && result.at("return_mean").is_number())
          means.push_back(result.at("return_mean"));
    nlohmann::json row{{"actions", way.at("actions")}, {"seeds", means.size()}};
    if (way.contains("against")) row["against"] = way.at("against");
    if (!means.empty()) {
      const Spread spread = spread_of(means);
      row["return_mean"] = spread.mean;
      row["return_std"] = finite_or_null(spread.deviation);
      row["interval_95"] = {finite_or_null(spread.interval.low),
                            finite_or_null(spread.interval.high)};
    }
    all.push_back(std::move(row));
  }
  return all;
}

std::string over_seeds_text(const nlohmann::json& results) {
  std::string text;
  for (const nlohmann::json& row : results) {
    text += row.at("actions").get<std::string>();
    if (row.contains("against")) text += " against " + row.at("against").get<std::string>();
    text += " over " + counted(row.at("seeds"), "seed") + ": ";
    if (!row.contains("return_mean")) {
      text += "no episode ended\n";
      continue;
    }
    text += "return " + two_digits(row.at("return_mean"));
    if (row.at("return_std").is_number())
      text += ", deviation " + two_digits(row.at("return_std")) + ", 95 % interval " +
              two_digits(row.at("interval_95")[0]) + " to " + two_digits(row.at("interval_95")[1]) +
              " (Student's t)";
    text += "\n";
  }
  return text;
}

}  // namespace maglev::verbs::eval
