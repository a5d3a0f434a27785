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

// whole panels whose rows are aligned are turned by vectors
HWY_INLINE bool turns(const float* rows, int64_t count, int64_t features) {
  return count == kImageLanes && features % kImageLanes == 0 &&
         reinterpret_cast<uintptr_t>(rows) % (kImageLanes * sizeof(float)) == 0;
}
HWY_INLINE void turn_in(const float* rows, int64_t count, int64_t features, float* lanes) {
  if (turns(rows, count, features))
    transpose(rows, kImageLanes, features, features, lanes, kImageLanes);
  else rows_to_lanes(rows, features, count, features, lanes);
}
HWY_INLINE void turn_out(const float* lanes, int64_t count, int64_t features, float* rows) {
  if (turns(rows, count, features))
    transpose(lanes, features, kImageLanes, kImageLanes, rows, features);
  else lanes_to_rows(lanes, count, features, rows, features);
}

void conv_forward(const ConvLanesForward& f) {
  const ImageTag d;
  const ConvLanes& s = f.shape;
  const int64_t sides = kConvPad * s.channels * kImageLanes;
  const int64_t inner = s.width * s.channels * kImageLanes, row = inner + 2 * sides;
  // images into lanes, each row between zeros; the output's memory is free until then
  float* turned = s.pixels() * kImageLanes <= s.output() ? f.output : nullptr;
  if (turned) turn_in(f.x, f.count, s.pixels(), turned);
  for (int64_t y = 0; y < s.height; ++y) {
    float* to = f.input + y * row;
    clear_sides(to, row, sides);
    if (turned) std::copy_n(turned + y * inner, inner, to + sides);
    else
      rows_to_lanes(f.x + y * s.width * s.channels, s.pixels(), f.count, s.width * s.channels,
                    to + sides);
  }
  const int64_t depth = kConvSide * s.channels;
  for (int64_t y = 0; y < s.height; ++y) {
    const Seen seen = seen_rows(y, kConvPad, kConvSide, s.height);
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
                 .y = f.output + y * s.width * s.outs * kImageLanes,
                 .y_place = s.outs * kImageLanes,
                 .half = s.outs,
                 .below = 0});
  }
  for (int64_t i = 0; i < s.output(); i += kImageStep)
    hn::Store(hn::Max(hn::Load(d, f.output + i), hn::Zero(d)), d, f.output + i);
  turn_out(f.output, f.count, s.outs * s.places(), f.y);
}

void conv_backward(const ConvLanesBackward& b) {
  const ImageTag d;
  const ConvLanes& s = b.shape;
  turn_in(b.dy, b.count, s.outs * s.places(), b.scratch);
  // back through ReLU, the bias on the way
  const int64_t place = s.outs * kImageLanes;
  float* bias = b.scratch + s.output();
  std::fill_n(bias, place, 0.f);
  for (int64_t first = 0; first < s.output(); first += place)
    for (int64_t i = 0; i < place; i += kImageStep) {
      float* slope = b.scratch + first + i;
      const auto open = hn::Load(d, b.output + first + i) > hn::Zero(d);
      const auto dz = hn::IfThenElseZero(open, hn::Load(d, slope));
      hn::Store(dz, d, slope);
      hn::Store(hn::Load(d, bias + i) + dz, d, bias + i);
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
