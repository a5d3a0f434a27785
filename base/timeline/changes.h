#pragma once
// Two traces beside each other: which stages, kernels, operations and causes of idle time became
// slower or faster.

#include <string>
#include <vector>

#include "base/timeline/analysis.h"

namespace maglev {

struct Change {
  std::string kind, name;      ///< "stage", "kernel", "operation", "idle"
  double before = 0, now = 0;  ///< ns an iteration, or in all where a trace has no iterations

  double difference() const { return now - before; }
  /// 0.1: 10 % more than before. Infinity for what was not there.
  double relative() const;
};

struct Changes {
  bool per_iteration = false;  ///< both traces have iterations
  Change wall;
  std::vector<Change>
      rows;  ///< by size of the difference; those below 0.5 % of the wall are left out
};

Changes changes_between(const Analysis& before, const Analysis& now);

}  // namespace maglev
