#pragma once
// How fast a training run is, measured on this program run as a child: each measurement begins with
// fresh threads, caches and memory.

#include <cstdint>
#include <string>
#include <vector>

namespace maglev::verbs::bench {

struct Speed {
  double steps_per_second = 0;
  int64_t updates = 0;  ///< the figure is taken over
  double seconds = 0;
};

/// The steps and seconds of a metrics.jsonl: the first row, which holds construction and first
/// touches of memory, only starts the clock. All zero with fewer than two whole rows.
Speed speed_of(const std::string& metrics);

/// Runs `train` with `words` for `seconds` after its first update, and for two more updates at
/// least, then stops it. Throws Error with what the run said when it fails.
Speed measure_training(const std::vector<std::string>& words, double seconds);

}  // namespace maglev::verbs::bench
