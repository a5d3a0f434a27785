#include "base/picture/chart.h"

#include <algorithm>
#include <cmath>

#include "base/core/markup.h"
#include "base/core/printed.h"

namespace maglev {
namespace {

constexpr double kWidth = 660, kTop = 34, kBottom = 44, kRight = 150, kLeft = 64;
constexpr double kLinesHeight = 320, kRowHeight = 24;
// those of the pages, base/web/page/style.css: told apart by readers who see fewer colours as well
const char* const kColours[] = {"#0e48fe", "#a80000", "#00525c", "#7303ac",
                                "#969207", "#1298f9", "#e54e9f", "#22262f"};

const char* colour(size_t i) { return kColours[i % std::size(kColours)]; }

/// How a line is stroked: of those that share a colour, the later ones are dotted.
std::string dashes(size_t i, bool dashed) {
  const bool dotted = i >= std::size(kColours);
  if (!dashed && !dotted) return "";
  return std::string(" stroke-dasharray=\"") +
         (!dotted  ? "5 3"
          : dashed ? "5 3 1.5 3"
                   : "1.5 2.5") +
         "\"";
}

std::string short_text(double x) { return printed("%.6g", x); }

/// Tenths of a pixel are enough.
std::string px(double x) { return printed("%.1f", x); }

/// Numbers of an axis for people: 1e6 steps are 1M.
std::string tick_text(double x) {
  if (std::abs(x) >= 1e6) return short_text(x / 1e6) + "M";
  if (std::abs(x) >= 1e4) return short_text(x / 1e3) + "k";
  return short_text(x);
}

/// The range of values and where they lie on an axis between two pixels.
struct Axis {
  double low = INFINITY, high = -INFINITY;
  double from = 0, to = 0;
  bool log = false;
  bool single = false;  ///< one value is all there is

  void take(double v) {
    if (!std::isfinite(v)) return;
    low = std::min(low, v), high = std::max(high, v);
  }
  /// A range that is none gets one.
  void settle() {
    if (!(low <= high)) low = 0, high = 1;
    single = low == high;
    if (!single) return;
    if (log) low /= 2, high *= 2;
    else low -= 0.5, high += 0.5;
  }
  double at(double v) const {
    const auto scaled = [&](double x) { return log ? std::log10(x) : x; };
    return from + (to - from) * (scaled(v) - scaled(low)) / (scaled(high) - scaled(low));
  }
  /// About `count` round numbers within it.
  std::vector<double> ticks(int count) const {
    if (single) return {log ? 2 * low : (low + high) / 2};
    std::vector<double> found;
    if (log) {
      // of many decades their beginnings; of less than one, steps that are alike
      const bool wide = std::log10(high / low) > 4;
      for (double decade = std::pow(10, std::floor(std::log10(low))); decade <= high; decade *= 10)
        for (double k : {1., 2., 5.})
          if (k * decade >= low && k * decade <= high && (k == 1 || !wide))
            found.push_back(k * decade);
      if (found.size() >= 2) return found;
      found.clear();
    }
    const double rough = (high - low) / count, decade = std::pow(10, std::floor(std::log10(rough)));
    double step = 10 * decade;
    for (double k : {5., 2., 1.})
      if (k * decade >= rough) step = k * decade;
    for (double k = std::ceil(low / step); k * step <= high + 1e-9 * step; k += 1)
      found.push_back(k * step + 0.);  // no tick is -0
    return found;
  }
};

std::string text_at(double x, double y, const char* anchor, const std::string& words,
                    const std::string& fill = "#555") {
  return "<text x=\"" + px(x) + "\" y=\"" + px(y) + "\" text-anchor=\"" + anchor + "\" fill=\"" +
         fill + "\">" + escaped(words) + "</text>\n";
}

std::string line_at(double x1, double y1, double x2, double y2, const char* style) {
  return "<line x1=\"" + px(x1) + "\" y1=\"" + px(y1) + "\" x2=\"" + px(x2) + "\" y2=\"" + px(y2) +
         "\" " + style + "/>\n";
}

std::string open(double height, const std::string& title) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + px(kWidth) + " " +
         px(height) + "\" width=\"" + px(kWidth) +
         "\" font-family=\"sans-serif\" font-size=\"12\" role=\"img\" aria-label=\"" +
         escaped(title) + "\">\n<rect width=\"" + px(kWidth) + "\" height=\"" + px(height) +
         "\" fill=\"#fff\"/>\n<text x=\"12\" y=\"14\" font-size=\"14\" fill=\"#222\">" +
         escaped(title) + "</text>\n";
}

/// The band of a stretch of points that all have one.
std::string band(const std::vector<ChartPoint>& points, const Axis& x, const Axis& y, size_t i) {
  std::string there, back;
  for (const ChartPoint& p : points) {
    if (!std::isfinite(p.low) || !std::isfinite(p.high) || !std::isfinite(p.y)) continue;
    there += px(x.at(p.x)) + "," + px(y.at(p.high)) + " ";
    back = px(x.at(p.x)) + "," + px(y.at(p.low)) + " " + back;
  }
  if (there.empty()) return "";
  return "<polygon points=\"" + there + back + "\" fill=\"" + colour(i) +
         "\" fill-opacity=\"0.15\"/>\n";
}

std::string dot(double x, double y, double radius, size_t i, const char* opacity) {
  return "<circle cx=\"" + px(x) + "\" cy=\"" + px(y) + "\" r=\"" + px(radius) + "\" fill=\"" +
         colour(i) + "\" fill-opacity=\"" + opacity + "\"/>\n";
}

std::string path(const ChartLine& line, const Axis& x, const Axis& y, size_t i) {
  const auto known = [&](size_t k) {
    return k < line.points.size() && std::isfinite(line.points[k].x) &&
           std::isfinite(line.points[k].y);
  };
  std::string d, alone;
  for (size_t k = 0; k < line.points.size(); ++k) {
    if (!known(k)) continue;
    const ChartPoint& p = line.points[k];
    const bool first = k == 0 || !known(k - 1);
    // a line of one point is none
    if (first && !known(k + 1)) alone += dot(x.at(p.x), y.at(p.y), 2.5, i, "1");
    else d += (first ? "M" : "L") + px(x.at(p.x)) + " " + px(y.at(p.y));
  }
  if (d.empty()) return alone;
  return alone + "<path d=\"" + d + "\" fill=\"none\" stroke=\"" + colour(i) +
         "\" stroke-width=\"1.8\"" + dashes(i, line.dashed) + "/>\n";
}

}  // namespace

std::string svg(const LineChart& chart) {
  Axis x{.from = kLeft, .to = kWidth - kRight, .log = chart.log_x};
  Axis y{.from = kLinesHeight - kBottom, .to = kTop};
  for (const ChartLine& line : chart.lines)
    for (const ChartPoint& p : line.points) {
      if (!std::isfinite(p.y)) continue;
      x.take(p.x);
      for (double v : {p.y, p.low, p.high}) y.take(v);
    }
  x.settle(), y.settle();
  std::string out = open(kLinesHeight, chart.title);
  for (double v : y.ticks(5)) {
    out += line_at(x.from, y.at(v), x.to, y.at(v), v == 0 ? "stroke=\"#999\"" : "stroke=\"#ddd\"");
    out += text_at(x.from - 6, y.at(v) + 4, "end", tick_text(v));
  }
  for (double v : x.ticks(5)) out += text_at(x.at(v), y.from + 16, "middle", tick_text(v));
  out += text_at((x.from + x.to) / 2, kLinesHeight - 8, "middle", chart.x_label);
  out += text_at(x.from, kTop - 4, "start", chart.y_label);
  for (size_t i = 0; i < chart.lines.size(); ++i) {
    const ChartLine& line = chart.lines[i];
    out += band(line.points, x, y, i) + path(line, x, y, i);
    if (chart.marked)
      for (const ChartPoint& p : line.points)
        if (std::isfinite(p.y)) out += dot(x.at(p.x), y.at(p.y), 2.5, i, "1");
    const double at = kTop + 14 * double(i) + 6;
    out += line_at(
        x.to + 10, at - 4, x.to + 26, at - 4,
        (std::string("stroke=\"") + colour(i) + "\" stroke-width=\"2\"" + dashes(i, line.dashed))
            .c_str());
    out += "<text x=\"" + px(x.to + 30) + "\" y=\"" + px(at) +
           "\" font-size=\"10\" fill=\"#222\">" + escaped(line.name) + "</text>\n";
  }
  return out + "</svg>\n";
}

std::string svg(const RowChart& chart) {
  const double height = kTop + kRowHeight * double(chart.rows.size()) + kBottom;
  size_t longest = 0;
  for (const ChartRow& row : chart.rows) longest = std::max(longest, row.name.size());
  Axis x{.from = 20 + 7 * double(longest), .to = kWidth - 70};
  for (const ChartRow& row : chart.rows) {
    for (double v : {row.value, row.low, row.high}) x.take(v);
    for (double v : row.values) x.take(v);
  }
  x.settle();
  std::string out = open(height, chart.title);
  const double bottom = height - kBottom;
  for (double v : x.ticks(6)) {
    out += line_at(x.at(v), kTop, x.at(v), bottom, v == 0 ? "stroke=\"#999\"" : "stroke=\"#ddd\"");
    out += text_at(x.at(v), bottom + 16, "middle", tick_text(v));
  }
  out += text_at((x.from + x.to) / 2, height - 8, "middle", chart.x_label);
  for (size_t i = 0; i < chart.rows.size(); ++i) {
    const ChartRow& row = chart.rows[i];
    const double y = kTop + kRowHeight * (double(i) + 0.5);
    out += text_at(x.from - 10, y + 4, "end", row.name, "#222");
    for (double v : row.values)
      if (std::isfinite(v)) out += dot(x.at(v), y, 2.5, i, "0.4");
    if (std::isfinite(row.low) && std::isfinite(row.high))
      out += line_at(
          x.at(row.low), y, x.at(row.high), y,
          (std::string("stroke=\"") + colour(i) + "\" stroke-width=\"3\" stroke-opacity=\"0.6\"")
              .c_str());
    if (!std::isfinite(row.value)) continue;
    out += dot(x.at(row.value), y, 4.5, i, "1");
    out += text_at(kWidth - 8, y + 4, "end", printed("%.4g", row.value), "#222");
  }
  return out + "</svg>\n";
}

}  // namespace maglev
