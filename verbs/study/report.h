#pragma once
// What a study found, over training seeds.

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/statistics/samples.h"
#include "verbs/study/job.h"
#include "verbs/study/page.h"

namespace maglev::verbs::study {

/// Tables, figures and what may be said, of arms that were all judged. `command` makes it again.
Page report_of(const StudyRequest& request, const std::vector<ArmResult>& results,
               const std::string& command);
/// The same figures for programs: each arm's, each seed's, and the comparisons.
nlohmann::ordered_json json_of(const StudyRequest& request, const std::vector<ArmResult>& results);

/// The figures of one arm: values of its seeds, their mean, deviation and interval, of actions
/// "sampled" and "greedy".
nlohmann::ordered_json figures_of(const ArmResult& result);
/// Tables and figures of what was judged outside a study, an arm a name that was given; every pair is
/// tested. `modes`: env.mode of each, "" of who was not trained.
Page page_of_judged(const std::vector<ArmResult>& results, const std::vector<std::string>& modes,
                    const Protocol& protocol, const std::string& command);
/// The same for programs: "figures" of each, "compared" and "headlines".
nlohmann::ordered_json json_of_judged(const std::vector<ArmResult>& results,
                                      const std::vector<std::string>& modes);

/// What Goodhart's law costs, of one who is paid by the truth and one who is paid by a proxy, over
/// their seeds; intervals of 95 %.
struct Headline {
  std::string truth, proxy;  ///< names
  /// The share of its efficiency, food among all that is eaten, that the truth's loses by the proxy
  /// (the original's Goodhart failure index).
  Ratio failure;
  Ratio collapse;  ///< mean life of the truth's in those of the proxy's
};
/// Both have seeds that ate something.
Headline headline_of(const ArmResult& truth, const ArmResult& proxy);

/// Stopping early by an audit of the truth: each run is left where a row of its metrics showed the
/// best true return, and judged by the row after, which did not choose it.
struct Audit {
  double step;     ///< of the row that was chosen
  double stopped;  ///< true return per 1,000 steps of the row after
  double last;     ///< of the last row
};
/// Of a curve of two points at least.
Audit audit_of(const std::vector<TrainedPoint>& curve);

/// A study's mean curve with the range of its seeds, in at most `points` stretches of the run.
struct MeanCurve {
  std::vector<double> step;
  std::vector<double> truth, truth_low, truth_high, proxy, proxy_low, proxy_high;
};
MeanCurve mean_curve(const std::vector<std::vector<TrainedPoint>>& curves, size_t points);

}  // namespace maglev::verbs::study
