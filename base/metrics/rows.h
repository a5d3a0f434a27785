#pragma once
// Reading metrics.jsonl, which sinks/jsonl writes: one JSON object a line, names and numbers, null
// for what is not finite. Everybody who reads it reads it here.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace maglev {

/// The file's name in a run folder.
constexpr const char* kMetricsFile = "metrics.jsonl";

/// One row after another. Columns are numbered in the order in which they were first seen.
class MetricReader {
 public:
  struct Figure {
    size_t column;
    double value;  ///< NaN: null
  };
  /// Names beyond so many are left out, so that no file can fill the memory.
  static constexpr size_t kMostColumns = 1024;

  /// Takes a line without its end. False where it is no row, which is no JSON object with a whole
  /// number "step"; values that are neither numbers nor null are left out.
  bool read(std::string_view line);

  /// Of the row that was read last, in the order of its line.
  std::span<const Figure> figures() const { return figures_; }
  double step() const { return step_; }
  /// A column's figure; NaN where the row has none.
  double value(std::string_view name) const;
  bool has(std::string_view name) const;

  /// Names of all columns seen so far, by number.
  const std::vector<std::string>& columns() const { return columns_; }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  const Figure* find(std::string_view name) const;
  bool read_known(std::string_view line);
  bool read_any(std::string_view line);

  double step_ = 0;
  std::vector<Figure> figures_, before_;
  std::vector<std::string> columns_;
  std::unordered_map<std::string, size_t, Hash, std::equal_to<>> numbers_;
};

/// Calls `take` with each row of the run in `folder`, in order, and returns how many lines were left
/// out for they are no rows; a last one that a kill cut off is not among them. Nothing where there is
/// no file. Throws Error.
int64_t each_metric_row(const std::string& folder,
                        const std::function<void(const MetricReader&)>& take);

/// Where a run's rows end.
struct LastRow {
  double step = -1;  ///< -1: there is none
  /// Of the last row that has one, which events have not; NaN: no episode has ended.
  double return_mean = std::numeric_limits<double>::quiet_NaN();
};
/// Reads the end of the file alone. Throws Error.
LastRow last_metric_row(const std::string& folder);

}  // namespace maglev
