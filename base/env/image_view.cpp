#include "base/env/image_view.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/env/entry.h"
#include "base/env/pictures.h"

namespace maglev {
namespace {

constexpr size_t kAlignment = 16;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// the column that is a picture, or -1
int32_t picture_of(const EnvSpec& spec) {
  for (size_t i = 0; i < spec.observations.size(); ++i)
    if (is_picture(spec.observations[i])) return int32_t(i);
  return -1;
}

// One picture at a time, rows first and then columns: the same sums as seen_pixel's, which is its
// reference, of a line of sums each. Where a column's area begins and what of each drawn column
// lies in it is found once.
class Seeing {
 public:
  /// For pictures that are drawn and seen as v's are.
  explicit Seeing(const ImageView& v)
      : H_(v.H), W_(v.W), C_(v.C), h_(v.h), w_(v.w), c_(v.c), reach_((v.W - 1) / v.w + 2) {
    for (int64_t x = 0; x < v.w; ++x) {
      const int64_t left = x * v.W, right = left + v.W;
      firsts_.push_back(int32_t(left / v.w));
      for (int64_t i = 0, column = firsts_.back(); i < reach_; ++i, ++column)
        shares_.push_back(uint32_t(std::max<int64_t>(0, v.covered(column, v.w, left, right))));
    }
  }

  bool suits(const ImageView& v) const {
    return v.H == H_ && v.W == W_ && v.C == C_ && v.h == h_ && v.w == w_ && v.c == c_;
  }
  void see(const ImageView& v, const uint8_t* drawn) {
    const bool grey = v.is_grey();
    const int32_t width = v.W * v.c;
    picture_.resize(size_t(v.h) * size_t(v.w) * size_t(v.c));
    if (v.h == v.H && v.w == v.W && !grey) {
      std::memcpy(picture_.data(), drawn, picture_.size());
      return;
    }
    // shares of 0 reach beyond the last column
    sums_.assign(size_t(width + reach_ * v.c), 0u);
    for (int32_t y = 0; y < v.h; ++y) {
      uint32_t* const sums = sums_.data();
      std::fill_n(sums, width, 0u);
      const int64_t top = int64_t(y) * v.H, bottom = top + v.H;
      for (int64_t row = top / v.h; row * v.h < bottom; ++row) {
        const auto share = uint32_t(v.covered(row, v.h, top, bottom));
        const uint8_t* from = drawn + row * width * (grey ? 3 : 1);
        if (grey)
          for (int32_t x = 0; x < width; ++x) sums[x] += share * v.luma(from + 3 * x);
        else
          for (int32_t x = 0; x < width; ++x) sums[x] += share * from[x];
      }
      sum_columns(v, picture_.data() + int64_t(y) * v.w * v.c);
    }
  }
  const uint8_t* picture() const { return picture_.data(); }

 private:
  void sum_columns(const ImageView& v, uint8_t* to) {
    means_.resize(size_t(v.w) * size_t(v.c));
    const int32_t reach = reach_, channels = v.c;
    int64_t* mean = means_.data();
    for (int32_t x = 0; x < v.w; ++x) {
      const uint32_t* share = shares_.data() + int64_t(x) * reach;
      const uint32_t* line = sums_.data() + int64_t(firsts_[size_t(x)]) * channels;
      for (int32_t k = 0; k < channels; ++k, ++line) {
        int64_t sum = 0;
        for (int32_t i = 0; i < reach; ++i) sum += int64_t(share[i]) * line[i * channels];
        *mean++ = sum;
      }
    }
    // as numbers of 53 bits: sums have 36, and one that a picture's area does not divide is off by
    // more than a quotient's rounding
    const auto all = double(v.all()), half = double(v.all() / 2);
    for (size_t i = 0; i < means_.size(); ++i)
      to[i] = uint8_t(int32_t((double(means_[i]) + half) / all));
  }

  std::vector<uint8_t> picture_;
  std::vector<uint32_t> sums_, shares_;
  std::vector<int64_t> means_;
  std::vector<int32_t> firsts_;
  int32_t H_, W_, C_, h_, w_, c_;
  int32_t reach_;  // drawn columns that a seen one may cover
};

// each thread's own, made anew where it sees other pictures: steps allocate nothing
Seeing& seeing_of(const ImageView& v) {
  thread_local Seeing last(v);
  if (!last.suits(v)) last = Seeing(v);
  return last;
}

// the newest picture and those before it into a row, and it among those
void stack(const ImageView& v, const uint8_t* newest, uint8_t* before, bool first, uint8_t* row) {
  const int64_t channels = v.c, pixel = channels * v.stack, picture = int64_t(v.h) * v.w * v.c;
  const auto put = [=](const uint8_t* from, int32_t f) {
    uint8_t* to = row + f * channels;
    if (channels == 1)
      for (int64_t i = 0; i < picture; ++i) to[i * pixel] = from[i];
    else
      for (int64_t i = 0; i < picture; i += channels, to += pixel)
        for (int64_t k = 0; k < channels; ++k) to[k] = from[i + k];
  };
  put(newest, 0);
  for (int32_t f = 1; f < v.stack; ++f) put(first ? newest : before + (f - 1) * picture, f);
  if (v.stack == 1) return;
  if (first)
    for (int32_t f = 0; f + 1 < v.stack; ++f)
      std::memcpy(before + f * picture, newest, size_t(picture));
  else std::memmove(before + picture, before, size_t((v.stack - 2) * picture));
  std::memcpy(before, newest, size_t(picture));
}

}  // namespace

void ImageTransform::describe(OptionTable& table, ImageTransform& t) {
  table.add("resize", t.resize,
            "pictures are scaled to so many pixels a side, by areas; 0: as they are",
            {.min = 0, .max = 1024, .unit = "pixels"});
  table.add("grey", t.grey, "pictures are seen in grey");
  table.add("stack", t.stack,
            "so many steps' pictures are seen at once, as channels, the newest first",
            {.min = 1, .max = 64, .unit = "steps"});
}

EnvSpec ImageTransform::seen(EnvSpec shown) const {
  if (!changes()) return shown;
  const int32_t column = picture_of(shown);
  if (column < 0)
    throw Error(
        "[env] env.image.* is for pictures, and with these settings the environment shows "
        "none; leave it out, or have it show one");
  std::vector<int64_t>& shape = shown.observations[size_t(column)].shape;
  if (grey && shape[2] != 3)
    throw Error("[env] env.image.grey is for pictures of 3 channels, got " +
                std::to_string(shape[2]) + "; leave it out");
  if (resize > 0) shape[0] = shape[1] = resize;
  if (grey) shape[2] = 1;
  shape[2] *= stack;
  return shown;
}

ImageView image_view(const ImageTransform& transform, const EnvSpec& shown, size_t state_bytes) {
  if (!transform.changes()) return {};
  const EnvSpec seen = transform.seen(shown);
  const int32_t column = picture_of(shown);
  const auto& from = shown.observations[size_t(column)].shape;
  const auto& to = seen.observations[size_t(column)].shape;
  ImageView view{.column = column,
                 .H = int32_t(from[0]),
                 .W = int32_t(from[1]),
                 .C = int32_t(from[2]),
                 .h = int32_t(to[0]),
                 .w = int32_t(to[1]),
                 .c = int32_t(to[2] / transform.stack),
                 .stack = int32_t(transform.stack)};
  view.drawn = int64_t(aligned(state_bytes));
  view.before = view.drawn + int64_t(aligned(size_t(view.H) * size_t(view.W) * size_t(view.C)));
  return view;
}

size_t viewed_bytes(const ImageView& view, size_t state_bytes) {
  if (!view.active()) return state_bytes;
  return size_t(view.before) +
         size_t(view.stack - 1) * size_t(view.h) * size_t(view.w) * size_t(view.c);
}

StepIo drawn_io(const ImageView& view, const EnvBatch& batch, const StepIo& io) {
  StepIo drawn = io;
  drawn.obs[view.column] = batch.slots + view.drawn;
  drawn.obs_row_bytes[view.column] = int64_t(batch.slot_bytes);
  return drawn;
}

void see_images_cpu(const EnvBatch& batch, const StepIo& io, int64_t begin, int64_t end) {
  const ImageView& v = batch.view;
  Seeing& seeing = seeing_of(v);
  for (int64_t i = begin; i < end; ++i) {
    std::byte* slot = batch.slots + size_t(i) * batch.slot_bytes;
    seeing.see(v, reinterpret_cast<const uint8_t*>(slot + v.drawn));
    stack(v, seeing.picture(), reinterpret_cast<uint8_t*>(slot + v.before), io.is_first[i] != 0,
          reinterpret_cast<uint8_t*>(io.obs[v.column] + i * io.obs_row_bytes[v.column]));
  }
}

}  // namespace maglev
