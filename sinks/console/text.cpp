// Numbers, bars and charts as text.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/core/printed.h"
#include "sinks/console/draw.h"

namespace maglev::sinks::console {
std::string figure_text(double value) {
  if (std::isnan(value)) return "-";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  const double size = std::abs(value);
  if (size < 99999.5 && value == std::round(value)) return printed("%.0f", value == 0 ? 0 : value);
  if (size < 5e-4 || size >= 99999.5) return printed("%.2e", value);
  if (size >= 999.95) return printed("%.0f", value);
  if (size >= 99.995) return printed("%.1f", value);
  if (size >= 9.9995) return printed("%.2f", value);
  return printed(size >= 0.99995 ? "%.3f" : "%.4f", value);
}

std::string count_text(double count) {
  if (!std::isfinite(count)) return "-";
  if (count < 9999.5) {
    const auto whole = int64_t(std::llround(count));
    if (whole < 1000) return std::to_string(whole);
    return printed("%d,%03d", int(whole / 1000), int(whole % 1000));
  }
  static constexpr std::array<const char*, 5> kLetters{"k", "M", "G", "T", "P"};
  size_t letter = 0;
  double value = count / 1000;
  while (value >= 999.5 && letter + 1 < kLetters.size()) value /= 1000, ++letter;
  if (value == std::round(value)) return printed("%.0f", value) + kLetters[letter];
  return printed(value >= 99.95   ? "%.0f"
                 : value >= 9.995 ? "%.1f"
                                  : "%.2f",
                 value) +
         kLetters[letter];
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds > 3e9) return "-";
  const auto s = int64_t(std::max(0.0, seconds));
  char text[64];
  const int days = int(s / 86400), hours = int(s / 3600 % 24), minutes = int(s / 60 % 60),
            rest = int(s % 60);
  if (days > 0) std::snprintf(text, sizeof text, "%dd %02d:%02d:%02d", days, hours, minutes, rest);
  else if (hours > 0) std::snprintf(text, sizeof text, "%d:%02d:%02d", hours, minutes, rest);
  else std::snprintf(text, sizeof text, "%d:%02d", minutes, rest);
  return text;
}

std::vector<int> apportion(const std::vector<double>& shares, int width) {
  std::vector<double> clean;
  double sum = 0;
  for (double share : shares) {
    clean.push_back(share > 0 && std::isfinite(share) ? share : 0);
    sum += clean.back();
  }
  std::vector<int> columns(shares.size(), 0);
  if (sum <= 0 || width <= 0) return columns;
  std::vector<std::pair<double, size_t>> remainders;
  int left = width;
  for (size_t i = 0; i < clean.size(); ++i) {
    const double exact = clean[i] / sum * width;
    columns[i] = int(exact);
    left -= columns[i];
    remainders.emplace_back(columns[i] - exact, i);
  }
  std::stable_sort(remainders.begin(), remainders.end(),
                   [](auto& a, auto& b) { return a.first < b.first; });
  for (int i = 0; i < left; ++i) columns[remainders[size_t(i) % remainders.size()].second]++;
  return columns;
}

std::vector<std::string> chart(const std::vector<double>& values, int width, int height,
                               bool unicode) {
  std::vector<std::string> lines(size_t(std::max(0, height)));
  if (values.empty() || width <= 0 || height <= 0) return lines;
  const size_t columns = std::min(size_t(width), values.size());
  std::vector<double> points(columns, 0);
  for (size_t c = 0; c < columns; ++c) {
    const size_t begin = c * values.size() / columns, end = (c + 1) * values.size() / columns;
    for (size_t i = begin; i < end; ++i) points[c] += values[i] / double(end - begin);
  }
  const auto [low, high] = std::minmax_element(points.begin(), points.end());
  static constexpr std::array<const char*, 9> kBlocks{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr std::array<const char*, 4> kMarks{" ", ".", ":", "#"};
  const int per_row = unicode ? 8 : 3;
  const double span = *high - *low;
  for (double point : points) {
    // the lowest entry has one eighth, the highest fills the chart; a flat history lies in the
    // middle
    const double share = span > 0 ? (point - *low) / span : 0.5;
    const int filled = 1 + int(std::lround(share * (height * per_row - 1)));
    for (int row = 0; row < height; ++row) {
      const int part = std::clamp(filled - (height - 1 - row) * per_row, 0, per_row);
      lines[size_t(row)] += unicode ? kBlocks[size_t(part)] : kMarks[size_t(part)];
    }
  }
  return lines;
}

}  // namespace maglev::sinks::console
