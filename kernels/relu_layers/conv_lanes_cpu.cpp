#include "kernels/relu_layers/conv_lanes.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/relu_layers/conv_lanes_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd/product-inl.h"
#include "base/simd/windows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kConvSide = 3, kConvPad = 1;

// `features` of each of `count` images, [count][image] -> [feature][16] and back: by vectors where
// they are those of a whole panel and aligned
HWY_INLINE bool turns(const float* rows, int64_t image, int64_t count, int64_t features) {
  return count == kImageLanes && features % kImageLanes == 0 && image % kImageLanes == 0 &&
         reinterpret_cast<uintptr_t>(rows) % (kImageLanes * sizeof(float)) == 0;
}
HWY_INLINE void turn_in(const float* rows, int64_t image, int64_t count, int64_t features,
                        float* lanes) {
  if (turns(rows, image, count, features))
    transpose(rows, kImageLanes, image, features, lanes, kImageLanes);
  else rows_to_lanes(rows, image, count, features, lanes);
}
HWY_INLINE void turn_out(const float* lanes, int64_t count, int64_t features, float* rows,
                         int64_t image) {
  if (turns(rows, image, count, features))
    transpose(lanes, features, kImageLanes, kImageLanes, rows, image);
  else lanes_to_rows(lanes, count, features, rows, image);
}

// images into lanes, their rows `row` apart behind `sides` zeros; sixteen numbers of each at a
// time, which may be of two rows and more
HWY_INLINE void turn_images_in(const ConvLanesForward& f, int64_t row, int64_t sides) {
  const int64_t image = f.shape.pixels(), inner = f.shape.width * f.shape.channels;
  HWY_ALIGN float turned[kImageLanes * kImageLanes];
  for (int64_t first = 0; first < image; first += kImageLanes) {
    const int64_t count = std::min(kImageLanes, image - first);
    const auto to = [&](int64_t i) {
      return f.input + i / inner * row + sides + i % inner * kImageLanes;
    };
    const bool together = first / inner == (first + count - 1) / inner;
    turn_in(f.x + first, image, f.count, count, together ? to(first) : turned);
    for (int64_t i = 0; !together && i < count; ++i)
      std::copy_n(turned + i * kImageLanes, kImageLanes, to(first + i));
  }
}

void conv_forward(const ConvLanesForward& f) {
  const ConvLanes& s = f.shape;
  const int64_t sides = kConvPad * s.channels * kImageLanes;
  const int64_t row = s.width * s.channels * kImageLanes + 2 * sides;
  for (int64_t y = 0; y < s.height; ++y) clear_sides(f.input + y * row, row, sides);
  turn_images_in(f, row, sides);
  const int64_t depth = kConvSide * s.channels, features = s.width * s.outs;
  for (int64_t y = 0; y < s.height; ++y) {
    const Seen seen = seen_rows(y, kConvPad, kConvSide, s.height);
    float* out = f.output + y * features * kImageLanes;
    sum_windows({.x = f.input + seen.first * row,
                 .x_row = row,
                 .x_place = s.channels * kImageLanes,
                 .rows = seen.count,
                 .depth = depth,
                 .weight = f.packed + seen.cut * depth * kOutBlock,
                 .weight_block = kConvSide * depth * kOutBlock,
                 .start = f.bias,
                 .places = s.width,
                 .outs = s.outs,
                 .y = out,
                 .y_place = s.outs * kImageLanes,
                 .half = s.outs,
                 .below = 0,
                 .relu = true});
    // out of lanes while the row is near
    turn_out(out, f.count, features, f.y + y * features, s.height * features);
  }
}

void conv_backward(const ConvLanesBackward& b) {
  const ImageTag d;
  const ConvLanes& s = b.shape;
  const int64_t features = s.width * s.outs, place = s.outs * kImageLanes;
  float* bias = b.scratch + s.output();
  std::fill_n(bias, place, 0.f);
  // a row into lanes and back through ReLU, the bias on the way
  for (int64_t y = 0; y < s.height; ++y) {
    const float* out = b.output + y * features * kImageLanes;
    float* slopes = b.scratch + y * features * kImageLanes;
    turn_in(b.dy + y * features, s.height * features, b.count, features, slopes);
    for (int64_t i = 0; i < place; i += kImageStep) {
      auto sum = hn::Load(d, bias + i);
      for (int64_t at = i; at < features * kImageLanes; at += place) {
        const auto open = hn::Load(d, out + at) > hn::Zero(d);
        const auto dz = hn::IfThenElseZero(open, hn::Load(d, slopes + at));
        hn::Store(dz, d, slopes + at);
        sum = sum + dz;
      }
      hn::Store(sum, d, bias + i);
    }
  }
  add_lanes(bias, s.outs, b.d_bias);
  add_window_grads({.x = b.input,
                    .x_row = (s.width + 2 * kConvPad) * s.channels * kImageLanes,
                    .x_place = s.channels * kImageLanes,
                    .above = kConvPad,
                    .dz = b.scratch,
                    .dz_row = s.width * s.outs * kImageLanes,
                    .dz_place = s.outs * kImageLanes,
                    .height = s.height,
                    .places = s.width,
                    .first = 0,
                    .last = s.height,
                    .rows = kConvSide,
                    .columns = kConvSide,
                    .channels = s.channels,
                    .outs = s.outs,
                    .grad = b.d_weight});
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(conv_forward);
HWY_EXPORT(conv_backward);

void pack_conv_lanes_cpu(const ConvLanes& s, const float* weight, float* packed) {
  constexpr int64_t kTaps = 9;
  for (int64_t o = 0; o < s.outs; ++o)
    for (int64_t c = 0; c < s.channels; ++c)
      for (int64_t k = 0; k < kTaps; ++k)
        packed[((o / kOutBlock * kTaps + k) * s.channels + c) * kOutBlock + o % kOutBlock] =
            weight[(o * s.channels + c) * kTaps + k];
}

void conv_lanes_forward_cpu(const ConvLanesForward& args) {
  HWY_DYNAMIC_DISPATCH(conv_forward)(args);
}
void conv_lanes_backward_cpu(const ConvLanesBackward& args) {
  HWY_DYNAMIC_DISPATCH(conv_backward)(args);
}

}  // namespace maglev
#endif
