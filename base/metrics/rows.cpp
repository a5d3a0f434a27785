#include "base/metrics/rows.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "base/core/file.h"

namespace maglev {
namespace {

constexpr double kNoFigure = std::numeric_limits<double>::quiet_NaN();

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// the end of a number as JSON writes it; `begin` where there is none
const char* number_end(const char* begin, const char* end) {
  const char* c = begin;
  const auto digits = [&] {
    const char* first = c;
    while (c < end && is_digit(*c)) ++c;
    return c > first;
  };
  if (c < end && *c == '-') ++c;
  if (c < end && *c == '0') ++c;
  else if (!digits()) return begin;
  if (c < end && *c == '.' && (++c, !digits())) return begin;
  if (c < end && (*c == 'e' || *c == 'E')) {
    if (++c < end && (*c == '+' || *c == '-')) ++c;
    if (!digits()) return begin;
  }
  return c;
}

bool whole(double x) { return std::isfinite(x) && x == std::floor(x); }

}  // namespace

const MetricReader::Figure* MetricReader::find(std::string_view name) const {
  const auto number = numbers_.find(name);
  if (number == numbers_.end()) return nullptr;
  for (const Figure& figure : figures_)
    if (figure.column == number->second) return &figure;
  return nullptr;
}

double MetricReader::value(std::string_view name) const {
  const Figure* figure = find(name);
  return figure ? figure->value : kNoFigure;
}

bool MetricReader::has(std::string_view name) const { return find(name) != nullptr; }

bool MetricReader::read(std::string_view line) {
  figures_.swap(before_);
  if (!read_known(line) && !read_any(line)) {
    figures_.clear();
    return false;
  }
  step_ = value("step");
  return whole(step_);
}

// Rows have the same names in the same order nearly always. A line that has anything else than
// names that were seen and numbers is left to read_any: ten times faster, and what is no JSON is
// said by one parser.
bool MetricReader::read_known(std::string_view line) {
  figures_.clear();
  const char *c = line.data(), *end = c + line.size();
  const auto blanks = [&] {
    while (c < end && *c == ' ') ++c;
  };
  const auto take = [&](char wanted) {
    blanks();
    return c < end && *c == wanted && (++c, true);
  };
  if (!take('{')) return false;
  do {
    // the name: that of the same place in the row before, else one that is looked up
    if (!take('"')) return false;
    size_t column = figures_.size() < before_.size() ? before_[figures_.size()].column : SIZE_MAX;
    const std::string_view rest(c, size_t(end - c));
    if (column != SIZE_MAX && rest.starts_with(columns_[column]) &&
        rest.size() > columns_[column].size() && rest[columns_[column].size()] == '"') {
      c += columns_[column].size() + 1;
    } else {
      const size_t close = rest.find('"');
      if (close == rest.npos) return false;
      const auto number = numbers_.find(rest.substr(0, close));
      if (number == numbers_.end()) return false;
      column = number->second, c += close + 1;
    }
    // the number
    if (!take(':')) return false;
    blanks();
    double value = kNoFigure;
    if (std::string_view(c, size_t(end - c)).starts_with("null")) {
      c += 4;
    } else {
      const char* stop = number_end(c, end);
      if (std::from_chars(c, stop, value).ec != std::errc()) return false;
      c = stop;
    }
    figures_.push_back({column, value});
  } while (take(','));
  if (!take('}')) return false;
  blanks();
  return c == end;
}

bool MetricReader::read_any(std::string_view line) {
  figures_.clear();
  const auto json =
      nlohmann::ordered_json::parse(line.begin(), line.end(), nullptr, /*throws=*/false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number()) return false;
  for (const auto& [name, value] : json.items()) {
    if (!value.is_number() && !value.is_null()) continue;
    if (columns_.size() >= kMostColumns && !numbers_.contains(name)) continue;
    const auto [number, added] = numbers_.emplace(name, columns_.size());
    if (added) columns_.push_back(name);
    figures_.push_back({number->second, value.is_null() ? kNoFigure : value.get<double>()});
  }
  return true;
}

int64_t each_metric_row(const std::string& folder,
                        const std::function<void(const MetricReader&)>& take) {
  const std::string path = folder + "/" + kMetricsFile;
  if (!path_exists(path)) return 0;
  MetricReader reader;
  int64_t left_out = 0;
  read_lines(path, [&](std::string_view line) {
    if (reader.read(line)) take(reader);
    else ++left_out;
  });
  return left_out;
}

LastRow last_metric_row(const std::string& folder) {
  constexpr uint64_t kFirstBytes = 1 << 16, kMostBytes = 1 << 24;
  const std::string path = folder + "/" + kMetricsFile;
  if (!path_exists(path)) return {};
  const FileReader file(path);
  // more of the end, until a row with a return is in it
  for (uint64_t bytes = kFirstBytes;; bytes *= 16) {
    const uint64_t size = std::min(bytes, file.bytes());
    std::string text(size, '\0');
    file.read(file.bytes() - size, std::as_writable_bytes(std::span(text)));
    LastRow last;
    bool returns = false;
    MetricReader reader;
    size_t begin = 0;
    for (size_t end; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
      if (!reader.read(std::string_view(text).substr(begin, end - begin))) continue;
      last.step = std::max(last.step, reader.step());
      if (reader.has("return_mean")) last.return_mean = reader.value("return_mean"), returns = true;
    }
    if (returns || size == file.bytes() || bytes >= kMostBytes) return last;
  }
}

}  // namespace maglev
