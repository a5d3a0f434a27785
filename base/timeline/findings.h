#pragma once
// What is wrong with a run, by its trace: rules that look for one bottleneck each, and what the run
// would gain without it, computed by replay. A healthy run has none.

#include <string>
#include <vector>

namespace maglev {

class SpanGraph;
struct Analysis;
struct UsedTime;

struct Finding {
  std::string name;        ///< "synchronising read-back"
  std::string evidence;    ///< counts and times of the trace
  std::string patch = {};  ///< settings of ours, "threads=4"; empty: none would mend it
  std::string advice;      ///< one sentence
  double gain = 0;         ///< share of the wall that goes when what it names is free, in [0, 1]
  double patch_gain = 0;   ///< share that should go with `patch`
};

/// By gain, the largest first. `analysis` has stages, devices and origin; `threads` are by track.
std::vector<Finding> find_bottlenecks(const Analysis& analysis,
                                      const std::vector<UsedTime>& threads, const SpanGraph& graph);

/// Nanoseconds for people: "1.25 ms".
std::string amount_text(double ns);

}  // namespace maglev
