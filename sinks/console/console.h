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
  /// Whether others may have written to the terminal since it was asked last: the process had been
  /// stopped and goes on.
  std::function<bool()> continued = [] { return false; };
  /// Whether the run has a checkpoint to go on from.
  std::function<bool()> saved = [] { return true; };
};

class Console : public MetricSink {
 public:
  Console(const RunInfo& run, Screen screen);

  void write(const MetricRow& row) override;
  void tick(const Progress& progress) override;
  bool shows() const override { return true; }
  void note(const std::string& text) override;
  void warn(const std::string& text) override;
  void ends_early(const std::string& why) override;
  void close(const std::string& outcome) override;

 private:
  /// At most ten times a second unless it must be.
  void redraw(bool must);
  /// Escape sequences that take the cursor to the region's first column and line.
  std::string to_top(const Terminal& terminal);
  void print_plain(bool must);
  /// Where there is no terminal: lines that differ in their figures only come no more often than
  /// rows do.
  void print_note(const std::string& text);

  Screen screen_;
  View view_;
  bool live_;
  std::vector<int> drawn_widths_;  ///< of the lines on the screen now
  double drawn_at_s_, printed_at_s_;
  int64_t printed_rows_ = 0;
  std::string noted_kind_, held_note_;  ///< of the last note; one that waits
  double noted_at_s_;
  bool closed_ = false;
};

}  // namespace maglev::sinks::console
