#pragma once
// A recording as a file that others open. Chrome's JSON: "X" events, microseconds since
// "baseTimeNanoseconds" of CLOCK_REALTIME, as torch's profiler writes them, with an object "maglev"
// that says what was recorded; chrome://tracing, Perfetto, and `maglev trace analyze` read it.
// Perfetto's own format: packets of a protobuf (protos/perfetto/trace), written by hand.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/trace/thread_use.h"
#include "base/trace/tracer.h"

namespace maglev::trace {

/// What was recorded, for the object "maglev".
struct RecordedRun {
  std::string version, run, algorithm, environment, device;
  std::string mode;    ///< lite or full
  std::string window;  ///< iterations, "50-55"
  std::string reason;  ///< window, every, signal, slow iteration, divergence
  int64_t threads = 0;
  int64_t written_by = 0;  ///< process
  std::string boot = {};   ///< of the machine: processes of one have one CLOCK_MONOTONIC
  /// What one thread of this machine does at best: 10^9 operations and bytes a second; 0: not
  /// known.
  double peak_gflops = 0, peak_gbytes_s = 0;
  std::string counters =
      {};                  ///< of stages: "counted", or why some are not; empty: none were wanted
  int64_t processors = 0;  ///< that the process may use
  int64_t iteration_steps = 0;     ///< environment steps of an iteration
  int64_t block_environments = 0;  ///< that a thread steps at once
  std::vector<std::pair<std::string, std::string>> settings = {};  ///< all, by dotted name
  std::vector<ThreadUse> use = {};  ///< from the window's begin to its end; empty: not known
  /// The same of the threads of programs that it started, such as environments' Python processes.
  std::vector<ThreadUse> programs = {};
};

/// What tells one start of a machine from any other; empty: unknown.
std::string boot_of_this_machine();

/// Takes a file's bytes from its beginning to its end, a piece at a time.
using Bytes = std::function<void(std::string_view)>;

/// `inner`: a file of torch's profiler, whole, whose events and other members become those of this
/// one on the same clock; empty: none.
void write_chrome(const Recording& recording, const RecordedRun& run, std::string_view inner,
                  const Bytes& out);
/// Nested slices a thread; clocks CLOCK_MONOTONIC and CLOCK_REALTIME.
void write_perfetto(const Recording& recording, const RecordedRun& run, const Bytes& out);

/// Compresses what it is given as one gzip member. What it holds back comes with finish().
class Gzip {
 public:
  explicit Gzip(Bytes out);
  ~Gzip();
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  void write(std::string_view bytes);
  void finish();

 private:
  void deflate(std::string_view bytes, bool last);

  struct Stream;
  Bytes out_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace maglev::trace
