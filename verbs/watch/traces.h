#pragma once
// What the page of traces asks for, of the files in a run's folder traces/.
//   /api/traces?run=                        the files, newest first
//   /api/trace?run=&trace=                  threads, length, and what the recorder says of itself
//   /api/boxes?run=&trace=&low=&high=&width=&find=   boxes of a view (base/timeline/flame.h)
//   /api/self?run=&trace=&low=&high=        the names with the most time of their own in a view
//   /api/find?run=&trace=&find=&after=      how often a name is there, and where next
//   /perfetto?run=&trace=                   the file of Perfetto's format beside it, to be saved
// Times are ns since the trace's begin. Threads: functions may be called from any.

#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "base/timeline/flame.h"
#include "base/web/request.h"

namespace maglev::verbs::watch {

/// {"traces": [{"name", "bytes", "written", "perfetto"}]} of a run's folder.
std::string traces_json(const std::string& folder);

/// The file of Perfetto's format beside the trace that is asked for, as something to save. Throws
/// Error where there is none.
HttpResponse perfetto_response(const std::string& folder, const HttpRequest& request);

/// Traces that are open: the last ones that were asked for, as many as memory allows.
class OpenTraces {
 public:
  explicit OpenTraces(size_t most_bytes = size_t(512) << 20) : most_bytes_(most_bytes) {}

  // Each throws Error where the run has no such trace, or it cannot be read.
  std::string trace_json(const std::string& folder, const HttpRequest& request);
  std::string boxes_json(const std::string& folder, const HttpRequest& request);
  std::string self_json(const std::string& folder, const HttpRequest& request);
  std::string find_json(const std::string& folder, const HttpRequest& request);

 private:
  struct Open {
    std::string path;
    int64_t written, bytes;  ///< when the file was, and how many it had
    std::shared_ptr<const FlameTrace> trace;
  };
  std::shared_ptr<const FlameTrace> trace_of(const std::string& folder, const HttpRequest& request);

  const size_t most_bytes_;
  std::mutex mutex_;
  std::list<Open> open_;  ///< the one that was asked last first
};

}  // namespace maglev::verbs::watch
