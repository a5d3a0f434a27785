#include "verbs/compare/profile.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "base/picture/chart.h"
#include "base/statistics/profile.h"
#include "verbs/json_number.h"

namespace maglev::verbs::compare {
namespace {

using Json = nlohmann::ordered_json;

bool has_profile(std::span<const double> scores) { return scores.size() >= kProfileSeeds; }

// flat up to each step, and down at it; from and to where the picture begins and ends
ChartLine steps_of(const Side& group, const Interval& range, double confidence) {
  ChartLine line{.name = group.name};
  double before = range.low;
  for (const ProfileStep& step : performance_profile(group.values, confidence)) {
    for (const double score : {before, step.score})
      line.points.push_back({score, step.share, step.interval.low, step.interval.high});
    before = step.score;
  }
  for (const double score : {before, range.high}) line.points.push_back({score, 0, 0, 0});
  return line;
}

}  // namespace

Json profile_json(std::span<const double> scores, double confidence) {
  if (!has_profile(scores)) return nullptr;
  Json steps = Json::array();
  for (const ProfileStep& step : performance_profile(scores, confidence))
    steps.push_back({{"score", step.score},
                     {"share", step.share},
                     {"interval", {step.interval.low, step.interval.high}}});
  return steps;
}

std::string without_profile(const std::vector<Side>& groups) {
  std::string names;
  for (const Side& group : groups)
    if (!has_profile(group.values)) names += (names.empty() ? "" : ", ") + group.name;
  if (names.empty()) return "";
  return "no performance profile of " + names + ": that takes " + std::to_string(kProfileSeeds) +
         " seeds";
}

std::vector<study::PagePart> profile_parts(const std::vector<Side>& groups,
                                           const std::string& score, double confidence) {
  Interval range{INFINITY, -INFINITY};
  for (const Side& group : groups)
    if (has_profile(group.values))
      for (const double value : group.values)
        range = {std::min(range.low, value), std::max(range.high, value)};
  LineChart chart{
      .title = "Performance profile", .x_label = score, .y_label = "share of seeds that reach it"};
  for (const Side& group : groups)
    if (has_profile(group.values)) chart.lines.push_back(steps_of(group, range, confidence));
  std::vector<study::PagePart> parts;
  if (!chart.lines.empty())
    parts.emplace_back(study::Figure{
        "profile", svg(chart),
        "The share of seeds whose " + score +
            " is at least what stands below, and its bootstrap band at each by itself (Agarwal et "
            "al., 2021)."});
  if (const std::string line = without_profile(groups); !line.empty())
    parts.emplace_back(study::Paragraph{"There is " + line + "."});
  return parts;
}

}  // namespace maglev::verbs::compare
