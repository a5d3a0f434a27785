#pragma once
// Small charts as SVG text, without scripts, fonts or requests: for reports that are one file, and
// for pages of the documentation.

#include <limits>
#include <string>
#include <vector>

namespace maglev {

struct ChartPoint {
  double x, y;
  double low =
      std::numeric_limits<double>::quiet_NaN();  ///< of a band around the line, where known
  double high = std::numeric_limits<double>::quiet_NaN();
};

/// A line; a point that is not finite breaks it.
struct ChartLine {
  std::string name;
  std::vector<ChartPoint> points = {};
  bool dashed = false;
};

struct LineChart {
  std::string title, x_label, y_label;
  std::vector<ChartLine> lines = {};
  bool log_x = false;   ///< x > 0
  bool marked = false;  ///< a dot at each point
};

/// A figure of one group: its mean, the interval around it, and the values it is of.
struct ChartRow {
  std::string name;
  double value;
  double low, high;  ///< NaN: unknown
  std::vector<double> values = {};
};

/// Groups below each other over one axis, with a line at 0 where that lies within.
struct RowChart {
  std::string title, x_label;
  std::vector<ChartRow> rows = {};
};

/// One <svg> element each. What is not finite is left out.
std::string svg(const LineChart& chart);
std::string svg(const RowChart& chart);

}  // namespace maglev
