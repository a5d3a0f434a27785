#pragma once
// What people see while training: a region redrawn in place on a terminal, plain lines elsewhere.
// Threads: every call on one thread at a time (the writer's).
// Invariants: between calls the cursor is visible and at the beginning of the line below the
// region, so whatever ends the process leaves a usable terminal.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/terminal.h"
#include "base/metrics/sink.h"
#include "sinks/console/view.h"

namespace maglev::sinks::console {

/// Where a console writes and what it knows of the world; replaced in tests.
struct Screen {
  std::function<void(std::string_view)> write;
  std::function<Terminal()> terminal;  ///< as it is now
  std::function<double()> now_s;       ///< a steady clock
};

class Console : public MetricSink {
 public:
  Console(const RunInfo& run, Screen screen);

  void write(const MetricRow& row) override;
  void tick(const Progress& progress) override;
  void note(const std::string& text) override;
  void warn(const std::string& text) override;
  void close(const std::string& outcome) override;

 private:
  /// At most ten times a second unless it must be.
  void redraw(bool must);
  /// Escape sequences that take the cursor to the region's first column and line.
  std::string to_top(const Terminal& terminal) const;
  void print_plain(bool must);

  Screen screen_;
  View view_;
  bool live_;
  std::vector<int> drawn_widths_;  ///< of the lines on the screen now
  double drawn_at_s_, printed_at_s_;
  int64_t printed_rows_ = 0;
  bool closed_ = false;
};

}  // namespace maglev::sinks::console
