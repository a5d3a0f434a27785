#pragma once
// What is wrong with a run, by its trace: rules that look for one bottleneck each, and what the run
// would gain without it, computed by replay. A healthy run has none.

#include <cstdint>
#include <string>
#include <vector>

namespace maglev {

class SpanGraph;
struct Analysis;

struct Finding {
  std::string name;      ///< "synchronising read-back"
  std::string evidence;  ///< counts and times of the trace
  std::string patch;     ///< settings of ours, "env.threads=4"; empty where the run is not ours
  std::string advice;    ///< one sentence
  double gain = 0;       ///< share of the wall that goes when what it names is free, in [0, 1]
};

/// By gain, the largest first.
std::vector<Finding> find_bottlenecks(const Analysis& analysis, const SpanGraph& graph);

}  // namespace maglev
