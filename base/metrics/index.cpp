#include "base/metrics/index.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <sys/stat.h>

#include "base/core/clock.h"

namespace maglev {
namespace {

constexpr uint64_t kLeastWidth = 32;
constexpr size_t kPieceBytes = 1 << 20;
constexpr size_t kLongestLine = 16 << 20;
/// What is read at once without a sample first: some tenths of a second.
constexpr uint64_t kSampleOver = 32 << 20;
constexpr size_t kSampleBytes = 16 << 10;
constexpr size_t kNamedBytes = 80;
/// A first row: no two runs have the same seconds in it.
constexpr uint64_t kHeadBytes = 512;

std::string text_at(const FileReader& file, uint64_t begin, uint64_t bytes) {
  std::string text(size_t(bytes), '\0');
  file.read(begin, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace

void MetricIndex::Cell::add(double at_step, double at_seconds, double value) {
  add(Cell{at_step, at_seconds, value, value, value, 1});
}

void MetricIndex::Cell::add(const Cell& other) {
  if (other.rows == 0) return;
  low = rows ? std::min(low, other.low) : other.low;
  high = rows ? std::max(high, other.high) : other.high;
  step += other.step, seconds += other.seconds, sum += other.sum, rows += other.rows;
}

MetricIndex::MetricIndex(std::string path, Stretch part) : path_(std::move(path)), part_(part) {
  begin_anew();
  restarts_ = 0;
}

void MetricIndex::begin_anew() {
  bytes_ = position_ = 0;
  width_ = kLeastWidth;
  sampled_from_ = kBuckets;
  within_line_ = waits_ = false;
  lines_ = rows_ = damaged_ = 0;
  named_.clear();
  reader_ = {};
  cells_.clear();
  ++restarts_;
}

void MetricIndex::read(double budget_s) {
  const double until = steady_s() + budget_s;
  struct stat info;
  if (::stat(path_.c_str(), &info) != 0) {
    if (bytes_ > 0) begin_anew();
    return;
  }
  const FileReader file(path_);
  // a run that is resumed leaves out rows behind its checkpoint: another file, or a shorter one
  const bool same = device_ == uint64_t(info.st_dev) && node_ == uint64_t(info.st_ino) &&
                    file.bytes() >= head_.size() && text_at(file, 0, head_.size()) == head_;
  head_ = text_at(file, 0, std::min(file.bytes(), kHeadBytes));
  device_ = uint64_t(info.st_dev), node_ = uint64_t(info.st_ino);
  const uint64_t end = std::min(file.bytes(), part_.end);
  const uint64_t now = end > part_.begin ? end - part_.begin : 0;
  if (bytes_ > 0 && (!same || now < bytes_)) begin_anew();
  bytes_ = now;
  if (bytes_ - position_ > kSampleOver && sampled_from_ == kBuckets) sample(file);
  read_exactly(file, until);
}

// Lines that begin in the part, in order. The last one may end behind it; one without an end waits.
void MetricIndex::read_exactly(const FileReader& file, double until_s) {
  std::string text;
  size_t piece = kPieceBytes;
  waits_ = false;
  // a line that began before the part belongs to whoever reads that
  if (position_ == 0 && part_.begin > 0 && bytes_ > 0)
    within_line_ = text_at(file, part_.begin - 1, 1) != "\n";
  while (position_ < bytes_) {
    const uint64_t place = part_.begin + position_;
    text = text_at(file, place, std::min<uint64_t>(piece, file.bytes() - place));
    size_t begin = 0;
    for (size_t end; position_ + begin < bytes_ && (end = text.find('\n', begin)) != text.npos;
         begin = end + 1) {
      if (!within_line_)
        take_line(std::string_view(text).substr(begin, end - begin), position_ + begin);
      within_line_ = false;
    }
    position_ += begin;
    if (begin == 0) {
      waits_ = place + text.size() == file.bytes() && text.size() < kLongestLine;
      if (waits_) break;
      // a long line: more of it, until it is too long for a row
      if (piece < kLongestLine) {
        piece *= 2;
        continue;
      }
      if (!within_line_) take_line("", position_);
      within_line_ = true;
      position_ += text.size();
    }
    piece = kPieceBytes;
    if (steady_s() >= until_s) break;
  }
}

void MetricIndex::take_line(std::string_view line, uint64_t place) {
  while (place / width_ >= kBuckets) widen();
  // exact figures take the place of samples
  while (sampled_from_ < kBuckets && sampled_from_ <= place / width_) clear(sampled_from_++);
  ++lines_;
  if (reader_.read(line)) {
    ++rows_;
    add_row(place);
    return;
  }
  ++damaged_;
  if (named_.size() < kMostNamed)
    named_.push_back({.number = lines_, .text = std::string(line.substr(0, kNamedBytes))});
}

void MetricIndex::add_row(uint64_t place) {
  const size_t bucket = size_t(place / width_);
  const double seconds = reader_.value("seconds");
  if (cells_.size() < reader_.columns().size()) cells_.resize(reader_.columns().size());
  for (const MetricReader::Figure& figure : reader_.figures()) {
    if (!std::isfinite(figure.value)) continue;
    std::vector<Cell>& cells = cells_[figure.column];
    if (cells.size() <= bucket) cells.resize(bucket + 1);
    cells[bucket].add(reader_.step(), seconds, figure.value);
  }
}

// A few lines of each bucket. Those are many of a large file, and as many of a larger one.
void MetricIndex::sample(const FileReader& file) {
  while ((bytes_ - 1) / width_ >= kBuckets) widen();
  sampled_from_ = position_ ? size_t((position_ - 1) / width_) + 1 : 0;
  for (size_t bucket = sampled_from_; bucket * width_ < bytes_; ++bucket) {
    const uint64_t first = bucket * width_, place = part_.begin + first;
    const std::string text =
        text_at(file, place, std::min<uint64_t>(kSampleBytes, part_.begin + bytes_ - place));
    // from the first line that begins here
    size_t begin = place == 0 ? 0 : text.find('\n') + 1;
    if (place > 0 && begin == 0) continue;
    for (size_t end; begin < width_ && (end = text.find('\n', begin)) != text.npos; begin = end + 1)
      if (reader_.read(std::string_view(text).substr(begin, end - begin))) add_row(first + begin);
  }
}

void MetricIndex::widen() {
  if (sampled_from_ < kBuckets) {
    // a sample beside a bucket that is read already would be counted twice
    if (sampled_from_ % 2) clear(sampled_from_++);
    sampled_from_ /= 2;
  }
  width_ *= 2;
  for (std::vector<Cell>& cells : cells_) {
    for (size_t i = 0; i < cells.size(); ++i) {
      const Cell cell = cells[i];
      if (i % 2 == 0) cells[i / 2] = cell;
      else cells[i / 2].add(cell);
    }
    cells.resize((cells.size() + 1) / 2);
  }
}

void MetricIndex::clear(size_t bucket) {
  for (std::vector<Cell>& cells : cells_)
    if (bucket < cells.size()) cells[bucket] = {};
}

double MetricIndex::read_share() const {
  return bytes_ == 0 || waits_ ? 1.0 : double(position_) / double(bytes_);
}

const std::vector<MetricIndex::Cell>& MetricIndex::cells_of(std::string_view column) const {
  static const std::vector<Cell> none;
  const auto& names = columns();
  const size_t number = size_t(std::find(names.begin(), names.end(), column) - names.begin());
  return number < cells_.size() ? cells_[number] : none;
}

size_t MetricIndex::memory() const {
  size_t bytes = sizeof *this;
  for (const std::vector<Cell>& cells : cells_) bytes += cells.capacity() * sizeof(Cell);
  return bytes;
}

uint64_t MetricIndex::point_bytes(size_t points) const {
  uint64_t each = width_;
  while (each * std::max<size_t>(points, 1) < bytes_) each *= 2;
  return each;
}

uint64_t MetricIndex::final_until(uint64_t each) const { return position_ / each * each; }

std::vector<CurvePoint> MetricIndex::curve(std::string_view column, uint64_t each,
                                           uint64_t from) const {
  std::vector<CurvePoint> points;
  const std::vector<Cell>& cells = cells_of(column);
  const uint64_t final_bytes = final_until(each), stride = each / width_;
  for (size_t first = size_t(from / width_); first < cells.size(); first += stride) {
    Cell all;
    for (size_t i = first; i < std::min(first + stride, cells.size()); ++i) all.add(cells[i]);
    if (all.rows == 0) continue;
    const double rows = double(all.rows);
    points.push_back({.step = all.step / rows,
                      .seconds = all.seconds / rows,
                      .low = all.low,
                      .high = all.high,
                      .mean = all.sum / rows,
                      .rows = all.rows,
                      .may_change = first * width_ >= final_bytes});
  }
  return points;
}

Stretch MetricIndex::where(std::string_view axis, double low, double high) const {
  const std::vector<Cell>& cells = cells_of(axis);
  Stretch found{.begin = UINT64_MAX, .end = 0};
  for (size_t i = 0; i < cells.size(); ++i) {
    if (cells[i].rows == 0 || cells[i].high < low || cells[i].low > high) continue;
    found.begin = std::min(found.begin, part_.begin + i * width_);
    found.end = part_.begin + (i + 1) * width_;
  }
  return found.end == 0 ? Stretch{.begin = 0, .end = 0} : found;
}

}  // namespace maglev
