#include "verbs/bench/timings.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "base/config/choice.h"
#include "base/core/error.h"
#include "base/core/printed.h"
#include "base/picture/chart.h"
#include "verbs/study/page.h"

namespace maglev::verbs::bench {

TimingSummary summary_of(const Timing& timing) {
  return {.median = median_of(timing.seconds),
          .interval = median_interval(timing.seconds),
          .is_range = std::ssize(timing.seconds) < kLeastJudged};
}

const char* interval_name(const TimingSummary& summary) {
  return summary.is_range ? "range" : "95% interval";
}

std::vector<Comparison> compared(const std::vector<Timing>& now, const std::vector<Timing>& before,
                                 double threshold) {
  std::vector<Comparison> comparisons;
  for (const Timing& one : now) {
    const auto old = std::find_if(before.begin(), before.end(), [&](const Timing& other) {
      return other.suite == one.suite && other.name == one.name;
    });
    if (old == before.end()) continue;
    const TimingSummary a = summary_of(one), b = summary_of(*old);
    Comparison comparison{one.suite, one.name, a.median / b.median, Verdict::same};
    if (a.is_range || b.is_range) comparison.verdict = Verdict::too_few;
    else if (comparison.ratio > 1 + threshold && a.interval.low > b.interval.high)
      comparison.verdict = Verdict::slower;
    else if (1 / comparison.ratio > 1 + threshold && a.interval.high < b.interval.low)
      comparison.verdict = Verdict::faster;
    comparisons.push_back(std::move(comparison));
  }
  return comparisons;
}

std::string timings_json(const std::vector<Timing>& timings, const std::string& machine) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Timing& one : timings) {
    const TimingSummary summary = summary_of(one);
    all.push_back({{"suite", one.suite},
                   {"name", one.name},
                   {"seconds", one.seconds},
                   {"median", summary.median},
                   {"low", summary.interval.low},
                   {"high", summary.interval.high}});
  }
  return nlohmann::ordered_json{{"machine", machine}, {"timings", all}}.dump(2) + "\n";
}

std::vector<Timing> timings_of_json(const std::string& text, const std::string& path,
                                    std::string* machine) {
  const auto wrong = [&] {
    return Error("[bench] " + path +
                 " must hold timings as bench --json writes them, two positive samples each at "
                 "least (those of `bench run --against` hold arms and are no baseline); measure it "
                 "again");
  };
  try {
    std::vector<Timing> timings;
    const auto json = nlohmann::json::parse(text);
    if (machine && json.contains("machine")) *machine = json["machine"];
    for (const auto& one : json.at("timings")) {
      Timing timing{one.at("suite"), one.at("name"), one.at("seconds")};
      if (timing.seconds.size() < 2) throw wrong();
      for (double s : timing.seconds)
        if (!(s > 0 && std::isfinite(s))) throw wrong();
      timings.push_back(std::move(timing));
    }
    return timings;
  } catch (const nlohmann::json::exception&) {
    throw wrong();
  }
}

std::string timings_page(const std::vector<Timing>& timings,
                         const std::vector<Comparison>& comparisons, const std::string& machine) {
  study::Page page{.title = "Maglev's benchmarks", .parts = {study::Paragraph{machine}}};
  if (!comparisons.empty()) {
    RowChart chart{.title = "", .x_label = "percent slower than before", .rows = {}};
    study::ReportTable table{{"work", "of before", "verdict"}, {}, true};
    for (const Comparison& one : comparisons) {
      const double percent = 100 * (one.ratio - 1);
      chart.rows.push_back({one.suite + "/" + one.name, percent, NAN, NAN, {percent}});
      table.rows.push_back(
          {one.suite + "/" + one.name, printed("%.3f", one.ratio), name_of(one.verdict)});
    }
    page.parts.push_back(study::Heading{"Beside the baseline"});
    page.parts.push_back(study::Figure{"ratios", svg(chart), "Medians beside the baseline's."});
    page.parts.push_back(std::move(table));
  }
  study::ReportTable table{{"work", "median", "low", "high"}, {}};
  for (const Timing& one : timings) {
    const TimingSummary summary = summary_of(one);
    table.rows.push_back({one.suite + "/" + one.name, seconds_text(summary.median),
                          seconds_text(summary.interval.low), seconds_text(summary.interval.high)});
  }
  page.parts.push_back(study::Heading{"Time of one piece of work"});
  page.parts.push_back(std::move(table));
  return study::html(page);
}

std::string seconds_text(double seconds) {
  const double scale = seconds < 1e-6 ? 1e9 : seconds < 1e-3 ? 1e6 : seconds < 1 ? 1e3 : 1;
  return printed("%.3g %s", seconds * scale,
                 scale == 1e9   ? "ns"
                 : scale == 1e6 ? "us"
                 : scale == 1e3 ? "ms"
                                : "s");
}

}  // namespace maglev::verbs::bench
