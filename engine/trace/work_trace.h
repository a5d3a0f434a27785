#pragma once
// All of a piece of work as one trace, from its begin to its end: an evaluation, a ranking. What
// threads record is taken out of their buffers by a thread of its own while the work goes on.
// Threads: spans by all; everything here by the one that made it.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/core/background.h"
#include "base/trace/file.h"
#include "base/trace/tracer.h"
#include "engine/trace/kineto.h"
#include "engine/trace/options.h"

namespace maglev {

class WorkTrace {
 public:
  /// Records from here on. Of `options` mode, counters and size_limit count. `with_device`: work may
  /// be on a CUDA device. It outlives all threads of the work. Throws Error where torch's profiler
  /// cannot begin, or another trace of this process records.
  WorkTrace(const TraceOptions& options, bool with_device);
  /// Without finish() there is no file.
  ~WorkTrace();
  WorkTrace(const WorkTrace&) = delete;
  WorkTrace& operator=(const WorkTrace&) = delete;

  /// Ends, and writes what was recorded as Chrome's JSON to `path`, compressed where that ends in
  /// .gz, in the place of what is there. `about`: what was done, by whom, where. Returns lines for
  /// people. Throws Error where the file cannot be written.
  std::vector<std::string> finish(const std::string& path, trace::RecordedRun about);

 private:
  void drain();
  void end();

  TraceOptions options_;
  trace::CounterSource counters_;
  trace::Tracer tracer_;
  std::unique_ptr<Kineto> kineto_;                ///< null: mode lite
  std::vector<trace::ThreadUse> use_, programs_;  ///< of threads before it
  std::mutex mutex_;                              ///< of over_
  std::condition_variable changed_;
  bool over_ = false;
  Background drain_;  ///< ends first
};

}  // namespace maglev
