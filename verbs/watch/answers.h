#pragma once
// What the page asks for, as JSON.
//   /api/runs                           every run and how it stands
//   /api/settings?run=                  a run's settings by dotted names, as texts
//   /api/curves?run=&points=            every column's points; generation= and from= of the answer
//                                       before: what came since
//   /api/part?run=&points=&axis=&low=&high=   the same of a part of the run, in finer points
// Numbers that are not finite are null. Threads: functions may be called from any.

#include <list>
#include <mutex>
#include <string>

#include "base/metrics/index.h"
#include "base/web/request.h"
#include "verbs/watch/library.h"

namespace maglev::verbs::watch {

/// {"runs": [{"name", "algo", "env", "state", "steps", "total_steps", "return_mean", "started",
/// "updated", "message", "bound_by", "labels": {"actions/3": "up"}}]}
std::string runs_json(const std::vector<RunRow>& rows);

/// {"settings": {"ppo.lr": "0.0003"}}. Throws Error where config.yaml is none.
std::string settings_json(const std::string& yaml);

/// Metric files that are open: the last ones that were asked for, as many as `most_bytes` of memory
/// hold, and the last one anyway.
class OpenCurves {
 public:
  explicit OpenCurves(size_t most_bytes = size_t(256) << 20) : most_bytes_(most_bytes) {}

  /// Reads on in the run's metrics and answers:
  ///   generation     changes when points were joined or the file was replaced: all points come anew
  ///   next           ask from here the next time
  ///   read           share of the file that was read exactly; the rest is sampled. Below 1: ask again
  ///   rows, damaged, named   lines that are rows, that are none, and the first of those
  ///   columns        {name: {final, step, seconds, low, high, mean}}: points as arrays, from `from` on;
  ///                  the first `final` of them will not change
  std::string curves_json(const std::string& folder, const HttpRequest& request);
  /// The same of the rows whose `axis`, "step" or "seconds", lies between low and high, read from
  /// the file by itself. Throws Error for a request that is none.
  std::string part_json(const std::string& folder, const HttpRequest& request);
  /// Files that are open.
  size_t count() const { return open_.size(); }

 private:
  struct Open {
    std::string folder;
    MetricIndex index;
  };

  /// Read on.
  MetricIndex& index_of(const std::string& folder);

  const size_t most_bytes_;
  std::mutex mutex_;
  std::list<Open> open_;  ///< the one that was asked last first
};

}  // namespace maglev::verbs::watch
