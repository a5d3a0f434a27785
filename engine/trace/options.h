#pragma once
// What of a run is recorded: the settings trace.*, and what the environment sets in their place.

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/config/options.h"

namespace maglev {

/// Our spans alone, or what torch's profiler sees besides.
enum class TraceMode { lite, full };
constexpr auto names_of(TraceMode) { return std::array{"lite", "full"}; }

/// Whether stages count cycles, misses and faults; automatic: in mode full.
enum class TraceCounters { automatic, on, off };
constexpr auto names_of(TraceCounters) { return std::array{"auto", "on", "off"}; }

struct TraceOptions {
  std::string window;  ///< iterations, "50-55" or "50", by commas; empty: none
  int64_t every = 0;   ///< iterations between two windows; 0: none
  int64_t length = 3;  ///< iterations of a window by `every` or a signal
  double anomaly = 0;  ///< times the median an iteration takes that is written; 0: none is
  TraceMode mode = TraceMode::lite;
  TraceCounters counters = TraceCounters::automatic;
  bool shapes = false, memory = false;  ///< what torch's profiler tells besides; mode full
  std::string folder;                   ///< empty: traces/ in the run's folder
  int64_t size_limit = 64;              ///< MiB of spans a window holds

  bool counts() const {
    return counters == TraceCounters::on ||
           (counters == TraceCounters::automatic && mode == TraceMode::full);
  }
  void describe(OptionTable& table);
};

/// `options` with what MAGLEV_TRACE, MAGLEV_TRACE_MODE and MAGLEV_TRACE_FOLDER say in place of
/// window, mode and folder. Throws Error, also where what is set wants another mode.
TraceOptions with_environment(TraceOptions options);

/// First and last iteration of each window, in order. Throws Error that names `origin`.
using IterationRange = std::pair<int64_t, int64_t>;
std::vector<IterationRange> parse_windows(const std::string& text, const std::string& origin);

}  // namespace maglev
