#pragma once
// Where measurements go: files that are asked for, a table beside a baseline, and what is told of the
// machine.

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/core/file.h"
#include "engine/host/bystanders.h"
#include "verbs/arguments.h"
#include "verbs/bench/timings.h"

namespace maglev::verbs::bench {

constexpr int64_t kRounds = 9;   ///< the fewest whose interval leaves out a sample at each end
constexpr int kRegressed = 1;    ///< exit status
constexpr int kNotMeasured = 2;  ///< the same: a device that was asked for is not here

/// What the flags say, before anything is measured in so many rounds. Throws Error where a file
/// cannot be written or is no baseline, or there are too few rounds to judge, now or in it.
struct Outputs {
  std::optional<std::string> json, html;
  std::optional<AppendFile> log;
  std::string baseline;        ///< the text of --baseline
  std::vector<Timing> before;  ///< in it
  double threshold;            ///< of what is slower

  Outputs(const Arguments& arguments, int rounds);
};

/// The table beside the baseline, and the files, with what `beside` has besides timings in that of
/// --json; the exit status. Throws Error where nothing measured is in the baseline.
int tell_timings(const Arguments& arguments, const Outputs& outputs,
                 const std::vector<Timing>& timings, const std::string& how,
                 const nlohmann::json& beside);

/// Where it was measured, and how.
std::string machine_of(const std::string& how);
/// On stderr, where other programs kept processors busy.
void tell_unrest(const Bystanders& bystanders);

}  // namespace maglev::verbs::bench
