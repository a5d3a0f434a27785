#include <algorithm>

#include "kernels/image_towers/image_towers.h"
#include "kernels/image_towers/layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/image_towers/encoder_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/image_towers/stage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace towers;

// the largest of four places of a pair of rows, the first of equals, and which it was
HWY_INLINE void pool(const float* upper, const float* lower, int64_t places, int64_t channels,
                     float* pooled, uint8_t* corner) {
  const ImageTag d;
  const hn::RebindToSigned<ImageTag> integers;
  const hn::Rebind<uint8_t, ImageTag> narrow;
  const int64_t step = channels * kImageLanes;
  for (int64_t p = 0; p < places; ++p, upper += step, lower += step)
    for (int64_t i = 0; i < step; i += kImageStep, upper += kImageStep, lower += kImageStep) {
      auto most = hn::Load(d, upper);
      auto which = hn::Zero(integers);
      const auto compare = [&](const float* other, int32_t number) HWY_ATTR {
        const auto value = hn::Load(d, other);
        // what is no number goes on
        const auto more = hn::Or(value > most, hn::IsNaN(value));
        most = hn::IfThenElse(more, value, most);
        which = hn::IfThenElse(hn::RebindMask(integers, more), hn::Set(integers, number), which);
      };
      compare(upper + step, 1), compare(lower, 2), compare(lower + step, 3);
      hn::Store(most, d, pooled + p * step + i);
      hn::Store(hn::DemoteTo(narrow, which), narrow, corner + p * step + i);
    }
}

// gradients of pooled places at the corners they came from, 0 elsewhere
HWY_INLINE void unpool(const float* slope, const uint8_t* corner, int64_t places, int64_t channels,
                       float* upper, float* lower) {
  const ImageTag d;
  const hn::RebindToSigned<ImageTag> integers;
  const hn::Rebind<uint8_t, ImageTag> narrow;
  const int64_t step = channels * kImageLanes;
  for (int64_t p = 0; p < places; ++p, upper += step, lower += step)
    for (int64_t i = 0; i < step; i += kImageStep, upper += kImageStep, lower += kImageStep) {
      const auto value = hn::Load(d, slope + p * step + i);
      const auto which = hn::PromoteTo(integers, hn::Load(narrow, corner + p * step + i));
      const auto part = [&](int32_t number) HWY_ATTR {
        const auto here = hn::Eq(which, hn::Set(integers, number));
        return hn::IfThenElseZero(hn::RebindMask(d, here), value);
      };
      hn::Store(part(0), d, upper), hn::Store(part(1), d, upper + step);
      hn::Store(part(2), d, lower), hn::Store(part(3), d, lower + step);
    }
}

// bytes as the first convolution takes them
HWY_INLINE void image_to_input(const ImageTower& tower, const uint8_t* images, int64_t count,
                               float* input) {
  const int64_t channels = tower.channels[0], numbers = tower.width * channels;
  const int64_t sides = kPad * channels * kImageLanes, row = numbers * kImageLanes + 2 * sides;
  for (int64_t y = 0; y < tower.height; ++y, input += row) {
    clear_sides(input, row, sides);
    bytes_to_lanes(images + y * numbers, tower.pixels(), count, numbers, 1 / 255.f, -0.5f,
                   input + sides);
  }
}

// what one stage leaves, as the next one's convolution takes it
HWY_INLINE void pooled_to_input(const EncoderStage& next, const float* pooled, const float* scale,
                                int64_t y, float* input) {
  const int64_t sides = kPad * next.in * kImageLanes;
  float* row = input + y * next.in_row();
  clear_sides(row, next.in_row(), sides);
  norm_silu(pooled, scale, next.width, next.in, row + sides);
}

void encoder_forward(const EncoderForward& f) {
  const EncoderScratch scratch(f.tower);
  float *input = f.scratch + scratch.input, *output = f.scratch + scratch.output;
  image_to_input(f.tower, f.images, f.count, input);
  for (int64_t s = 0; s < f.tower.stages(); ++s) {
    const EncoderStage stage = encoder_stage(f.tower, s);
    const bool last = s + 1 == f.tower.stages();
    const EncoderStage next = last ? EncoderStage{} : encoder_stage(f.tower, s + 1);
    float* conv = f.scratch + scratch.rows;
    const int64_t conv_row = stage.width * stage.out * kImageLanes;
    auto* corner = reinterpret_cast<uint8_t*>(f.kept + stage.corner);
    for (int64_t y = 0; y < stage.height; ++y) {
      const Seen seen = seen_rows(y, kPad, kKernel, stage.height);
      sum_windows({.x = input + seen.first * stage.in_row(),
                   .x_row = stage.in_row(),
                   .x_place = stage.in * kImageLanes,
                   .rows = seen.count,
                   .depth = stage.depth(),
                   .weight = f.packed + stage.weight + seen.cut * stage.depth() * kOutBlock,
                   .weight_block = kKernel * stage.depth() * kOutBlock,
                   .start = f.packed + stage.start,
                   .places = stage.width,
                   .outs = stage.out,
                   .y = conv + y % 2 * conv_row,
                   .y_place = stage.out * kImageLanes,
                   .half = stage.out,
                   .below = 0});
      if (y % 2 == 0) continue;
      // two rows are one of the next stage
      float* pooled = f.kept + stage.pooled + y / 2 * stage.pooled_row();
      pool(conv, conv + conv_row, stage.width / 2, stage.out, pooled,
           corner + y / 2 * stage.pooled_row());
      if (last)
        norm_silu(pooled, f.stages[s].scale, stage.width / 2, stage.out,
                  output + y / 2 * stage.pooled_row());
      else pooled_to_input(next, pooled, f.stages[s].scale, y / 2, output);
    }
    std::swap(input, output);
  }
  lanes_to_rows(input, f.count, f.tower.token(), f.tokens, f.token_row);
}

void encoder_backward(const EncoderBackward& b) {
  const EncoderScratch scratch(b.tower);
  float *input = b.scratch + scratch.input, *slope = b.scratch + scratch.output;
  float *slopes = b.scratch + scratch.slopes, *weight = b.scratch + scratch.weight;
  float* lanes = b.scratch + scratch.lanes;
  rows_to_lanes(b.d_tokens, b.token_row, b.count, b.tower.token(), slope);
  for (int64_t s = b.tower.stages(); s-- > 0;) {
    const EncoderStage stage = encoder_stage(b.tower, s);
    const TowerGrad& grad = b.grads[s];
    // back through norm and SiLU; the bias is added to all four corners of which one counts
    const int64_t places = stage.height * stage.width / 4;
    float* d_bias = lanes + stage.out * kImageLanes;
    std::fill_n(lanes, 2 * stage.out * kImageLanes, 0.f);
    norm_silu_grad(b.kept + stage.pooled, b.stages[s].scale, places, stage.out, slope, lanes,
                   d_bias);
    add_lanes(lanes, stage.out, grad.scale);
    add_lanes(d_bias, stage.out, grad.bias);
    // what the convolution saw
    if (s == 0) {
      image_to_input(b.tower, b.images, b.count, input);
    } else {
      const EncoderStage before = encoder_stage(b.tower, s - 1);
      for (int64_t y = 0; y < stage.height; ++y)
        pooled_to_input(stage, b.kept + before.pooled + y * before.pooled_row(),
                        b.stages[s - 1].scale, y, input);
    }
    // its gradients, a few rows at a time
    const int64_t sides = kPad * stage.out * kImageLanes, chunk = chunk_rows(stage.width);
    const auto* corner = reinterpret_cast<const uint8_t*>(b.kept + stage.corner);
    std::fill_n(weight, kKernel * stage.depth() * stage.out, 0.f);
    for (int64_t first = 0; first < stage.height; first += chunk) {
      const int64_t end = std::min(stage.height, first + chunk);
      float* rows = slopes + (s == 0 ? 0 : first * stage.out_row());
      for (int64_t y = first; y < end; y += 2) {
        float *upper = rows + (y - first) * stage.out_row(), *lower = upper + stage.out_row();
        clear_sides(upper, stage.out_row(), sides);
        clear_sides(lower, stage.out_row(), sides);
        unpool(slope + y / 2 * stage.pooled_row(), corner + y / 2 * stage.pooled_row(),
               stage.width / 2, stage.out, upper + sides, lower + sides);
      }
      add_window_grads({.x = input,
                        .x_row = stage.in_row(),
                        .x_place = stage.in * kImageLanes,
                        .above = kPad,
                        .dz = rows + sides,
                        .dz_row = stage.out_row(),
                        .dz_place = stage.out * kImageLanes,
                        .height = stage.height,
                        .places = stage.width,
                        .first = first,
                        .last = end,
                        .rows = kKernel,
                        .columns = kKernel,
                        .channels = stage.in,
                        .outs = stage.out,
                        .grad = weight});
    }
    // [row][column][in][out] to torch's order
    for (int64_t o = 0; o < stage.out; ++o)
      for (int64_t c = 0; c < stage.in; ++c)
        for (int64_t k = 0; k < kKernel * kKernel; ++k)
          grad.weight[(o * stage.in + c) * kKernel * kKernel + k] +=
              weight[(k * stage.in + c) * stage.out + o];
    // and of what it saw: the convolution back, its kernel turned round
    for (int64_t y = 0; s > 0 && y < stage.height; ++y) {
      const Seen seen = seen_rows(y, kPad, kKernel, stage.height);
      sum_windows({.x = slopes + seen.first * stage.out_row(),
                   .x_row = stage.out_row(),
                   .x_place = stage.out * kImageLanes,
                   .rows = seen.count,
                   .depth = stage.turned_depth(),
                   .weight = b.packed + stage.turned + seen.cut * stage.turned_depth() * kOutBlock,
                   .weight_block = kKernel * stage.turned_depth() * kOutBlock,
                   .start = b.packed + stage.none,
                   .places = stage.width,
                   .outs = stage.in,
                   .y = slope + y * stage.width * stage.in * kImageLanes,
                   .y_place = stage.in * kImageLanes,
                   .half = stage.in,
                   .below = 0});
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(encoder_forward);
HWY_EXPORT(encoder_backward);

TowerSizes encoder_sizes(const ImageTower& tower) {
  TowerSizes sizes = towers::each_encoder_stage(tower, [](int64_t, const towers::EncoderStage&) {});
  sizes.scratch = towers::EncoderScratch(tower).end;
  return sizes;
}

void pack_encoder_cpu(const ImageTower& tower, std::span<const TowerStage> stages, float* packed) {
  using namespace towers;
  std::fill_n(packed, encoder_sizes(tower).packed, 0.f);
  each_encoder_stage(tower, [&](int64_t s, const EncoderStage& stage) {
    const float* from = stages[s].weight;
    for (int64_t o = 0; o < stage.out; ++o) {
      packed[stage.start + o] = stages[s].bias[o];
      for (int64_t c = 0; c < stage.in; ++c)
        for (int64_t r = 0; r < kKernel; ++r)
          for (int64_t k = 0; k < kKernel; ++k, ++from) {
            packed[stage.weight + packed_place(o, r, k * stage.in + c, kKernel, stage.depth())] =
                *from;
            const int64_t row = kKernel - 1 - r, column = kKernel - 1 - k;
            packed[stage.turned + packed_place(c, row, column * stage.out + o, kKernel,
                                               stage.turned_depth())] = *from;
          }
    }
  });
}

void encoder_forward_cpu(const EncoderForward& args) {
  HWY_DYNAMIC_DISPATCH(encoder_forward)(args);
}
void encoder_backward_cpu(const EncoderBackward& args) {
  HWY_DYNAMIC_DISPATCH(encoder_backward)(args);
}

}  // namespace maglev
#endif
