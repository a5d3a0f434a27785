#include "verbs/eval/dreams.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "base/env/pictures.h"
#include "base/picture/text.h"

namespace maglev::verbs::eval {
namespace {

constexpr Rgb kBack{18, 20, 26}, kText{200, 204, 212}, kAxis{70, 74, 84}, kTruth{235, 235, 235};
constexpr Rgb kSeen{76, 175, 120}, kImagined{240, 150, 60};
constexpr int kGap = 4, kEdge = 2, kLabel = 9;
// pixels a picture is at least high, and the most steps and rows of a strip
constexpr int kLeastPicture = 64;
constexpr int64_t kStripSteps = 16, kMostRows = 6, kMostCurves = 12;
constexpr int kCurveWidth = 360, kCurveHeight = 56;

/// [T, N, H, W, 3] u8 of an image column of any number of channels: the last three where there are
/// so many, else the last one in grey.
at::Tensor colours_of(const at::Tensor& images) {
  const int64_t C = images.size(-1);
  const auto shown =
      C >= 3 ? images.narrow(-1, C - 3, 3)
             : images.narrow(-1, C - 1, 1)
                   .expand({images.size(0), images.size(1), images.size(2), images.size(3), 3});
  return shown.to(at::kFloat).round().clamp(0, 255).to(at::kByte).cpu().contiguous();
}

/// One picture [H, W, 3] u8, `scale` pixels a pixel.
Canvas picture_of(const at::Tensor& image, int scale) {
  const int height = int(image.size(0)), width = int(image.size(1));
  Canvas canvas(width * scale, height * scale);
  const auto* p = image.const_data_ptr<uint8_t>();
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x, p += 3)
      canvas.rectangle({float(x * scale), float(y * scale)},
                       {float((x + 1) * scale), float((y + 1) * scale)}, {p[0], p[1], p[2]});
  return canvas;
}

/// Truth, model and their difference of an image column, one above the other.
class ImageRows {
 public:
  ImageRows(const at::Tensor& truth, const at::Tensor& model)
      : truth_(colours_of(truth)),
        model_(colours_of(model)),
        // no difference is the middle grey
        difference_(
            (at::div(model_.to(at::kInt) - truth_.to(at::kInt), 2, "floor") + 128).to(at::kByte)),
        scale_(std::max<int>(1, (kLeastPicture + int(truth_.size(2)) - 1) / int(truth_.size(2)))) {}

  int width() const { return int(truth_.size(3)) * scale_ + 2 * kEdge; }
  int height() const { return 3 * step() - kGap; }
  /// Row `n` at step `t`, its upper left corner at (x, y); `edge` says whether the step was seen.
  void place(Canvas& canvas, int x, int y, int64_t t, int64_t n, Rgb edge) const {
    const at::Tensor* rows[] = {&truth_, &model_, &difference_};
    for (int i = 0; i < 3; ++i) {
      const int top = y + i * step();
      const PixelPoint upper{float(x), float(top)};
      canvas.rectangle(upper, {float(x + width()), float(top + picture() + 2 * kEdge)},
                       i == 1 ? edge : kAxis);
      canvas.place(picture_of((*rows[i])[t][n], scale_), x + kEdge, top + kEdge);
    }
  }

 private:
  int picture() const { return int(truth_.size(2)) * scale_; }
  int step() const { return picture() + 2 * kEdge + kGap; }

  at::Tensor truth_, model_, difference_;
  int scale_;
};

/// Curves of a column of numbers in one row, one below the other: truth and model.
class Curves {
 public:
  Curves(const std::string& name, const at::Tensor& truth, const at::Tensor& model, int64_t row)
      : name_(name), truth_(of_row(truth, row)), model_(of_row(model, row)) {}

  int height() const { return int(count()) * (kCurveHeight + kLabel + kGap) - kGap; }
  /// Up to step `until`, exclusive; the model's is coloured by whether it saw the step.
  void place(Canvas& canvas, int x, int y, int64_t until, const std::vector<bool>& seen) const {
    for (int64_t i = 0; i < count(); ++i)
      place_one(canvas, x, y + int(i) * (kCurveHeight + kLabel + kGap), i, until, seen);
  }

 private:
  static at::Tensor of_row(const at::Tensor& column, int64_t row) {
    // a model that has learned nothing may say anything
    constexpr float kMost = 1e30f;
    return at::nan_to_num(column.select(1, row).flatten(1).to(at::kFloat).cpu(), 0, kMost, -kMost)
        .clamp(-kMost, kMost)
        .contiguous();
  }
  int64_t count() const { return std::min(truth_.size(1), kMostCurves); }

  void place_one(Canvas& canvas, int x, int y, int64_t i, int64_t until,
                 const std::vector<bool>& seen) const {
    const int64_t T = truth_.size(0);
    write_text(canvas, {float(x), float(y)}, name_ + " " + std::to_string(i), 1, kText);
    y += kLabel;
    // one scale for both, so that what differs is seen
    const auto both = at::stack({truth_.select(1, i), model_.select(1, i)});
    const float low = both.min().item<float>(), high = both.max().item<float>();
    const auto point = [&](const at::Tensor& curve, int64_t t) {
      const float value = curve.const_data_ptr<float>()[t * curve.size(1) + i];
      const float share = high > low ? (value - low) / (high - low) : 0.5f;
      return PixelPoint{
          float(x) + float(kCurveWidth) * float(t) / float(std::max<int64_t>(1, T - 1)),
          float(y) + float(kCurveHeight - 2) * (1 - share) + 1};
    };
    canvas.rectangle({float(x), float(y + kCurveHeight - 1)},
                     {float(x + kCurveWidth), float(y + kCurveHeight)}, kAxis);
    for (int64_t t = 1; t < until; ++t) {
      canvas.line(point(truth_, t - 1), point(truth_, t), 1.5f, kTruth);
      canvas.line(point(model_, t - 1), point(model_, t), 1.5f,
                  seen[size_t(t)] ? kSeen : kImagined);
    }
  }

  std::string name_;
  at::Tensor truth_, model_;
};

/// Whether the model was shown row `n` at each step.
std::vector<bool> seen_steps(const Dreamed& d, int64_t n) {
  const auto first = d.is_first.select(1, n).to(at::kByte).cpu().contiguous();
  std::vector<bool> seen(size_t(first.size(0)));
  for (size_t t = 0; t < seen.size(); ++t)
    seen[t] = int64_t(t) < d.seen || first.const_data_ptr<uint8_t>()[t] != 0;
  return seen;
}

/// What is drawn of a stretch of play, column by column.
struct Parts {
  std::vector<ImageRows> images;
  std::vector<Curves> curves;
  std::vector<std::vector<bool>> seen;  ///< of each row, the steps that the model was shown
};

Parts parts_of(const Dreamed& d) {
  Parts parts;
  for (size_t i = 0; i < d.columns.size(); ++i) {
    if (!d.model[i].defined()) continue;
    if (!image_shape(d.columns[i]).empty()) parts.images.emplace_back(d.truth[i], d.model[i]);
    else parts.curves.emplace_back(d.columns[i].name, d.truth[i], d.model[i], /*row=*/0);
  }
  for (int64_t n = 0; n < d.is_first.size(1); ++n) parts.seen.push_back(seen_steps(d, n));
  return parts;
}

const char* title_of(const Parts& parts) {
  return parts.images.empty() ? "white: truth" : "truth / model / difference";
}

Rgb edge_of(bool seen) { return seen ? kSeen : kImagined; }

/// Columns of pictures, `across` of them, and curves below.
Canvas sheet(const Parts& parts, int64_t across) {
  int width = 2 * kGap, height = kGap + kLabel + kGap;
  for (const ImageRows& image : parts.images) {
    width = std::max(width, kGap + int(across) * (image.width() + kGap));
    height += image.height() + kGap;
  }
  for (const Curves& curves : parts.curves) {
    width = std::max(width, kCurveWidth + 2 * kGap);
    height += curves.height() + kGap;
  }
  return Canvas(std::max(width, 2 * kGap + text_width(title_of(parts), 1)), height, kBack);
}

/// A frame of step t: images of several rows side by side, curves of the first row up to t.
Canvas frame(const Dreamed& d, const Parts& parts, int64_t t) {
  const int64_t T = d.is_first.size(0), N = std::min(d.is_first.size(1), kMostRows);
  Canvas canvas = sheet(parts, N);
  const bool seen = parts.seen[0][size_t(t)];
  write_text(canvas, {float(kGap), float(kGap)},
             "step " + std::to_string(t) + (seen ? " seen" : " imagined"), 1, edge_of(seen));
  int y = kGap + kLabel + kGap;
  for (const ImageRows& image : parts.images) {
    for (int64_t n = 0; n < N; ++n)
      image.place(canvas, kGap + int(n) * (image.width() + kGap), y, t, n,
                  edge_of(parts.seen[size_t(n)][size_t(t)]));
    y += image.height() + kGap;
  }
  for (const Curves& curves : parts.curves) {
    curves.place(canvas, kGap, y, std::min(t + 1, T), parts.seen[0]);
    y += curves.height() + kGap;
  }
  return canvas;
}

/// Steps of the first row from left to right.
Canvas strip(const Dreamed& d, const Parts& parts) {
  const int64_t T = d.is_first.size(0), across = std::min(T, kStripSteps);
  Canvas canvas = sheet(parts, across);
  write_text(canvas, {float(kGap), float(kGap)}, title_of(parts), 1, kText);
  const std::vector<bool>& seen = parts.seen[0];
  int y = kGap + kLabel + kGap;
  for (const ImageRows& image : parts.images) {
    for (int64_t i = 0; i < across; ++i) {
      const int64_t t = across > 1 ? i * (T - 1) / (across - 1) : 0;
      image.place(canvas, kGap + int(i) * (image.width() + kGap), y, t, 0,
                  edge_of(seen[size_t(t)]));
    }
    y += image.height() + kGap;
  }
  for (const Curves& curves : parts.curves) {
    curves.place(canvas, kGap, y, T, seen);
    y += curves.height() + kGap;
  }
  return canvas;
}

}  // namespace

std::vector<DreamError> errors_of(const Dreamed& d) {
  std::vector<DreamError> errors;
  const auto seen = d.is_first.to(at::kBool).logical_or(
      (at::arange(d.is_first.size(0), d.is_first.options().dtype(at::kLong)) < d.seen)
          .unsqueeze(1));
  // the step that each row saw last, at each step
  const auto times = at::arange(d.is_first.size(0), d.is_first.options().dtype(at::kLong));
  const auto last = std::get<0>(at::cummax(at::where(seen, times.unsqueeze(1), 0), 0));
  const auto rows = at::arange(d.is_first.size(1), times.options());
  const auto root = [](const at::Tensor& squares) {
    return squares.numel() > 0 ? std::sqrt(squares.mean().item<double>())
                               : std::numeric_limits<double>::quiet_NaN();
  };
  for (size_t i = 0; i < d.columns.size(); ++i) {
    if (!d.model[i].defined()) continue;
    const auto truth = d.truth[i].to(at::kFloat);
    const auto squares_of = [&](const at::Tensor& said) {
      return (said - truth).square().flatten(2).mean(2).to(at::kDouble);
    };
    const auto squares = squares_of(d.model[i]), still = squares_of(truth.index({last, rows}));
    errors.push_back({.column = d.columns[i].name,
                      .seen = root(squares.masked_select(seen)),
                      .imagined = root(squares.masked_select(seen.logical_not())),
                      .still = root(still.masked_select(seen.logical_not())),
                      .most = d.truth[i].scalar_type() == at::kByte ? 255. : 0.});
  }
  return errors;
}

void draw_moving(const Dreamed& d, Animation& into) {
  constexpr FrameTime kShown{1, 10};
  const Parts parts = parts_of(d);
  for (int64_t t = 0; t < d.is_first.size(0); ++t) into.add(frame(d, parts, t), kShown);
}

void draw_strip(const Dreamed& d, Animation& into) {
  constexpr FrameTime kStill{60, 1};
  into.add(strip(d, parts_of(d)), kStill);
}

}  // namespace maglev::verbs::eval
