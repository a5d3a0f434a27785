// The encoder on a panel of images, in either way of its convolutions (ways-inl.h).
// Included once per instruction set (hwy/foreach_target.h), hence no plain include guard.
#if defined(MAGLEV_KERNELS_ENCODER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAGLEV_KERNELS_ENCODER_INL_H_
#undef MAGLEV_KERNELS_ENCODER_INL_H_
#else
#define MAGLEV_KERNELS_ENCODER_INL_H_
#endif

#include <algorithm>

#include "kernels/image_towers/image_towers.h"
#include "kernels/image_towers/layout.h"
#include "kernels/image_towers/stage-inl.h"
#include "kernels/image_towers/ways-inl.h"

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

// row y of bytes, as the first convolution takes it; zeros beyond the image
HWY_INLINE void image_row(const ImageTower& tower, const uint8_t* images, int64_t count, int64_t y,
                          float* to) {
  const int64_t numbers = y < tower.height ? tower.row() : 0;
  const int64_t whole = tower.width_at(0) * tower.channels[0];
  bytes_to_lanes(images + y * tower.row(), tower.pixels(), count, numbers, 1 / 255.f, -0.5f, to);
  std::fill(to + numbers * kImageLanes, to + whole * kImageLanes, 0.f);
}

template <class Way>
void encoder_forward(const EncoderForward& f) {
  const EncoderScratch scratch(f.tower);
  Way way(scratch.way, f.scratch);
  float *input = f.scratch + scratch.input, *output = f.scratch + scratch.output;
  const Row pixels = encoder_stage(f.tower, 0).seen();
  for (int64_t y = 0; y < f.tower.height_at(0); ++y) {
    float* row = input + y * pixels.floats();
    image_row(f.tower, f.images, f.count, y, way.begin(row, pixels));
    way.see(row, pixels);
  }
  for (int64_t s = 0; s < f.tower.stages(); ++s) {
    const EncoderStage stage = encoder_stage(f.tower, s);
    const bool last = s + 1 == f.tower.stages();
    const EncoderStage next = last ? EncoderStage{} : encoder_stage(f.tower, s + 1);
    float* conv = f.scratch + scratch.rows;
    const int64_t conv_row = stage.width * stage.out * kImageLanes;
    auto* corner = reinterpret_cast<uint8_t*>(f.kept + stage.corner);
    for (int64_t y = 0; y < stage.height; ++y) {
      const Seen seen = seen_rows(y, kPad, kKernel, stage.height);
      way.sum({.x = input,
               .of = stage.seen(),
               .seen = seen,
               .rows = kKernel,
               .columns = kKernel,
               .weight = f.packed + stage.weight,
               .start = f.packed + stage.start,
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
      float* to = output + y / 2 * (last ? stage.pooled_row() : next.seen().floats());
      norm_silu(pooled, f.stages[s].scale, stage.width / 2, stage.out,
                last ? to : way.begin(to, next.seen()));
      if (!last) way.see(to, next.seen());
    }
    std::swap(input, output);
  }
  lanes_to_rows(input, f.count, f.tower.token(), f.tokens, f.token_row);
}

template <class Way>
void encoder_backward(const EncoderBackward& b) {
  const EncoderScratch scratch(b.tower);
  Way way(scratch.way, b.scratch);
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
    const Row seen = stage.seen(), slopes_of = stage.slopes();
    way.begin_grads(input, seen, stage.height);
    const EncoderStage before = s > 0 ? encoder_stage(b.tower, s - 1) : EncoderStage{};
    for (int64_t y = 0; y < stage.height; ++y) {
      float* row = way.grads_row(input, seen, y);
      float* to = way.begin(row, seen);
      if (s == 0) image_row(b.tower, b.images, b.count, y, to);
      else
        norm_silu(b.kept + before.pooled + y * before.pooled_row(), b.stages[s - 1].scale,
                  stage.width, stage.in, to);
      way.see_for_grads(row, seen);
    }
    // its gradients, a few rows at a time
    const int64_t chunk = way.chunk(seen, slopes_of, 1);
    const int64_t stored = way.stores_slopes(s > 0) ? slopes_of.floats() : 0;
    const auto* corner = reinterpret_cast<const uint8_t*>(b.kept + stage.corner);
    std::fill_n(weight, kKernel * kKernel * stage.in * stage.out, 0.f);
    for (int64_t first = 0; first < stage.height; first += chunk) {
      const int64_t end = std::min(stage.height, first + chunk);
      float* rows = slopes + (s == 0 ? 0 : first * slopes_of.floats());
      float* words = b.scratch + scratch.way.pairs;
      for (int64_t y = first; y < end; y += 2) {
        float *upper = rows + (y - first) * stored, *lower = upper + stored;
        unpool(slope + y / 2 * stage.pooled_row(), corner + y / 2 * stage.pooled_row(),
               stage.width / 2, stage.out, way.begin(upper, slopes_of, 0),
               way.begin(lower, slopes_of, 1));
        way.see_slopes(upper, words + (y - first) * slopes_of.slope_words(), slopes_of, s > 0, 0);
        way.see_slopes(lower, words + (y + 1 - first) * slopes_of.slope_words(), slopes_of, s > 0,
                       1);
      }
      way.add_grads({.x = input,
                     .of = seen,
                     .slopes = way.slopes(rows, words),
                     .slopes_of = slopes_of,
                     .slopes_step = 1,
                     .height = stage.height,
                     .first = first,
                     .last = end,
                     .kernel = kKernel,
                     .grad = weight});
    }
    // [row][column][in][out] to torch's order
    for (int64_t o = 0; o < stage.out; ++o)
      for (int64_t c = 0; c < stage.in; ++c)
        for (int64_t k = 0; k < kKernel * kKernel; ++k)
          grad.weight[(o * stage.in + c) * kKernel * kKernel + k] +=
              weight[(k * stage.in + c) * stage.out + o];
    // and of what it saw: the convolution back, its kernel turned round
    for (int64_t y = 0; s > 0 && y < stage.height; ++y)
      way.sum({.x = slopes,
               .of = slopes_of,
               .seen = seen_rows(y, kPad, kKernel, stage.height),
               .rows = kKernel,
               .columns = kKernel,
               .weight = b.packed + stage.turned,
               .start = b.packed + stage.none,
               .outs = stage.in,
               .y = slope + y * stage.width * stage.in * kImageLanes,
               .y_place = stage.in * kImageLanes,
               .half = stage.in,
               .below = 0});
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#endif
