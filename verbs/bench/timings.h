#pragma once
// Samples of how long works take, what they say together, and whether others say something else.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/statistics/samples.h"

namespace maglev::verbs::bench {

struct Timing {
  std::string suite, name;
  std::vector<double> seconds = {};  ///< of one piece of work, a sample a round
};

/// Fewer samples have no 95 % interval of their median: the range of five covers it in 93.75 %.
constexpr int64_t kLeastJudged = 6;

/// Median, and its 95 % interval (median_interval); of fewer than kLeastJudged samples the range,
/// which judges nothing.
struct TimingSummary {
  double median;
  Interval interval;
  bool is_range = false;
};
/// At least one sample.
TimingSummary summary_of(const Timing& timing);
/// What the interval is: "95% interval" or "range".
const char* interval_name(const TimingSummary& summary);

enum class Verdict { same, slower, faster, too_few };
constexpr auto names_of(Verdict) {
  return std::array{"same", "slower", "faster", "too few rounds"};
}

struct Comparison {
  std::string suite, name;
  double ratio;  ///< median now over median before
  Verdict verdict;
};

/// Works that both have. One is slower where the ratio is above 1 + `threshold` and the intervals
/// do not overlap, which is more than the noise of both; faster likewise; too few where one of them
/// has fewer than kLeastJudged samples.
std::vector<Comparison> compared(const std::vector<Timing>& now, const std::vector<Timing>& before,
                                 double threshold);

/// {"machine": ..., "timings": [{"suite", "name", "seconds": [...], "median", "low", "high"}]}.
std::string timings_json(const std::vector<Timing>& timings, const std::string& machine);
/// Of such a text, and where it was measured; `path` for errors. Throws Error where it is none.
std::vector<Timing> timings_of_json(const std::string& text, const std::string& path,
                                    std::string* machine = nullptr);

/// One HTML file: a table and a chart of ratios where there are comparisons.
std::string timings_page(const std::vector<Timing>& timings,
                         const std::vector<Comparison>& comparisons, const std::string& machine);

/// 12.3 us.
std::string seconds_text(double seconds);

}  // namespace maglev::verbs::bench
