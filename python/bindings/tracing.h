#pragma once
// Spans and traces of Python's own loops.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/trace/span.h"
#include "engine/trace/work_trace.h"

namespace maglev::python {

/// A span of a thread, in whatever trace records meanwhile. Spans of a thread end in the opposite
/// order. Under Python's lock: lists of spans are changed by whoever frees one.
class Span {
 public:
  /// `name`: 1 to 120 bytes, of 4,096 names in all, for each is kept; `step`: what counts, or -1.
  /// Throws Error.
  Span(const std::string& name, int64_t step);
  ~Span();
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  /// Throws Error where it has begun already.
  void enter();
  /// Throws Error where it has not begun, or began on another thread, or one that began within it
  /// has not ended.
  void exit();

 private:
  std::string named() const { return std::string("[span] '") + name_ + "'"; }

  using Open = std::vector<Span*>;  ///< spans of a thread, the innermost last
  static const std::shared_ptr<Open>& open_here();

  const char* name_;
  int64_t step_;
  std::shared_ptr<Open> open_;  ///< of the thread it began on, which may have ended
  std::unique_ptr<trace::ScopedSpan> span_;
};

/// What all threads of this process record from begin() to end().
class Trace {
 public:
  /// `mode`: lite or full, as trace.mode has them. Throws Error where it is another, where the file
  /// is there and not to be replaced, and where it cannot be written.
  Trace(const std::string& file, const std::string& mode, bool overwrite);

  /// Throws Error where another trace records.
  void begin();
  /// Writes the file, as of `script`. Returns lines for people. Throws Error.
  std::vector<std::string> end(const std::string& script);

 private:
  std::string file_;
  TraceOptions options_;
  WorkTrace* trace_ = nullptr;
};

}  // namespace maglev::python
