#pragma once
// A metrics.jsonl of any size as curves: the file is cut into at most kBuckets stretches of bytes,
// and of each stretch and column the least, the greatest and the mean figure are kept. So memory
// does not grow with the file, a file that grows is read on where it was left, and one too large to
// be read at once shows its shape from samples first, which exact figures replace as reading goes
// on. Threads: one at a time.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/file.h"
#include "base/metrics/rows.h"

namespace maglev {

/// What is left of several rows.
struct CurvePoint {
  double step = 0, seconds = 0;  ///< means over the rows
  double low = 0, high = 0, mean = 0;
  int64_t rows = 0;
  bool may_change = false;  ///< rows are still to come, or it is a sample
};

/// Bytes of a file.
struct Stretch {
  uint64_t begin = 0, end = UINT64_MAX;
};

/// A line that is no row.
struct DamagedLine {
  int64_t number = 0;     ///< in the file, from 1
  std::string text = {};  ///< its beginning
};

class MetricIndex {
 public:
  static constexpr size_t kBuckets = 2048;
  /// Damaged lines that are named; further ones are counted alone.
  static constexpr size_t kMostNamed = 5;

  /// Reads nothing yet; the file need not be there. Of a part, lines that begin in it count.
  explicit MetricIndex(std::string path, Stretch part = {});

  /// Goes on reading for about `budget_s` seconds, or to the end. A file that was replaced or cut
  /// is read anew. Throws Error where the system refuses.
  void read(double budget_s);

  /// Share of the file that was read exactly; 1: all whole lines. The rest is sampled.
  double read_share() const;
  uint64_t bytes() const { return bytes_; }
  int64_t rows() const { return rows_; }
  int64_t damaged() const { return damaged_; }
  const std::vector<DamagedLine>& named() const { return named_; }
  /// Bytes of memory it holds.
  size_t memory() const;
  /// How often reading began anew.
  int64_t restarts() const { return restarts_; }

  /// Names of columns, in the order of the file.
  const std::vector<std::string>& columns() const { return reader_.columns(); }
  /// Bytes that one point stands for, where there are to be at most `points`: a power of two.
  uint64_t point_bytes(size_t points) const;
  /// Points of a column from byte `from` on, in the order of the file; bytes without a figure have
  /// none. `each` is a point_bytes() and `from` a multiple of it.
  std::vector<CurvePoint> curve(std::string_view column, uint64_t each, uint64_t from = 0) const;
  /// Where the first point that may change begins.
  uint64_t final_until(uint64_t each) const;
  /// The bytes whose rows have figures of `axis` ("step", "seconds") between low and high.
  Stretch where(std::string_view axis, double low, double high) const;

 private:
  struct Cell {
    double step = 0, seconds = 0, low = 0, high = 0, sum = 0;  ///< step, seconds: sums
    int64_t rows = 0;

    void add(double at_step, double at_seconds, double value);
    void add(const Cell& other);
  };

  void begin_anew();
  void read_exactly(const FileReader& file, double until_s);
  void sample(const FileReader& file);
  void take_line(std::string_view line, uint64_t place);
  void add_row(uint64_t place);
  void widen();
  void clear(size_t bucket);
  const std::vector<Cell>& cells_of(std::string_view column) const;

  std::string path_;
  Stretch part_;
  uint64_t device_ = 0, node_ = 0;  ///< which file the path was
  std::string head_ = {};           ///< and what it began with: systems give a node's number again
  uint64_t bytes_ = 0;              ///< of the part, when it was looked at last
  uint64_t position_ = 0;  ///< of the next line that is not read exactly, from the part's begin
  uint64_t width_ = 0;     ///< bytes of a bucket
  size_t sampled_from_ = kBuckets;  ///< the first bucket that holds a sample
  bool within_line_ =
      false;            ///< reading stands in a line that is not ours, or too long to be a row
  bool waits_ = false;  ///< all but a last line without its end was read
  int64_t lines_ = 0, rows_ = 0, damaged_ = 0, restarts_ = 0;
  std::vector<DamagedLine> named_;
  MetricReader reader_;
  std::vector<std::vector<Cell>> cells_;  ///< [column][bucket], as long as needed
};

}  // namespace maglev
