#pragma once
// From what is known of a run to lines of text. Pure functions: the same view and terminal give the
// same lines.

#include <cstdint>
#include <string>
#include <vector>

#include "base/core/terminal.h"
#include "sinks/console/view.h"

namespace maglev::sinks::console {

/// Three to five significant digits, whole numbers without a fraction; "-" for NaN.
std::string figure_text(double value);
/// 1,234 below ten thousand, then three digits and a letter: 12.3k, 4.56M, 7G.
std::string count_text(double count);
/// 0:07, 12:34, 1:02:03, 2d 03:04:05; "-" for NaN.
std::string duration_text(double seconds);

/// Columns of each share of `width`, in order, that add up to exactly `width` (largest remainders).
/// Shares that are NaN or negative count as 0; all zero gives all zero.
std::vector<int> apportion(const std::vector<double>& shares, int width);
/// `height` lines, top first, each at most `width` columns: one column an entry, neighbours
/// averaged where there are more entries than columns. The lowest entry still shows. Empty strings
/// when there is nothing to draw.
std::vector<std::string> chart(const std::vector<double>& values, int width, int height,
                               bool unicode);

/// Printed once, above the live region.
std::vector<Line> header_lines(const View& view, const Terminal& terminal);
/// The live region: at most terminal.columns wide and terminal.rows - 1 high.
std::vector<Line> live_lines(const View& view, const Terminal& terminal);
/// One row where there is no terminal: `name=value` pairs in columns, no colours.
std::string plain_line(const View& view);
/// After the end. `outcome` as MetricSink::close gets it.
std::vector<Line> summary_lines(const View& view, const Terminal& terminal,
                                const std::string& outcome);

}  // namespace maglev::sinks::console
