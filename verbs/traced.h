#pragma once
// --trace FILE of verbs that do not train: all of their work as one trace.

#include <memory>
#include <string>
#include <vector>

#include "engine/trace/work_trace.h"
#include "verbs/arguments.h"

namespace maglev::verbs {

/// The flag, for a verb's grammar, which also has --overwrite, --json and settings.
inline constexpr Flag kTraceFlag{"--trace", "FILE",
                                 "record where the time goes, as JSON for Perfetto and `maglev "
                                 "trace analyze`; .gz: compressed; trace.mode=full: torch's "
                                 "operations besides"};

/// Outlives what does the work: declare it first.
class Traced {
 public:
  /// Records from here on where --trace was given. `on_device`: work may be on a CUDA device.
  /// Throws Error where the file may not be written, and where settings trace.* are wrong, are of
  /// windows of training or have no --trace. Says where MAGLEV_TRACE is set and does nothing here.
  Traced(const Arguments& arguments, const VerbEntry& verb, bool on_device);

  /// The command line's settings that are not trace.*.
  const std::vector<std::string>& settings() const { return settings_; }
  /// Ends, writes the file where one was asked for, and tells people, unless --json was given.
  /// `about`: run, algorithm, environment, device, threads. Throws Error.
  void finish(maglev::trace::RecordedRun about);

 private:
  std::string reason_;
  bool told_;  ///< to people
  std::vector<std::string> settings_;
  std::string file_;
  std::unique_ptr<WorkTrace> trace_;  ///< null: not asked for
};

}  // namespace maglev::verbs
