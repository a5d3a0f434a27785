// The decoder on a panel of images, in either way of its convolutions (ways-inl.h).
// Included once per instruction set (hwy/foreach_target.h), hence no plain include guard.
#if defined(MAGLEV_KERNELS_DECODER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAGLEV_KERNELS_DECODER_INL_H_
#undef MAGLEV_KERNELS_DECODER_INL_H_
#else
#define MAGLEV_KERNELS_DECODER_INL_H_
#endif

#include <algorithm>

#include "base/simd/order-inl.h"
#include "kernels/image_towers/image_towers.h"
#include "kernels/image_towers/layout.h"
#include "kernels/image_towers/stage-inl.h"
#include "kernels/image_towers/ways-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace towers;

// logits of a row become the gradient of its squared errors, which are added to loss [16]
HWY_INLINE void errors(const float* target, int64_t numbers, float* logits, float* loss) {
  const ImageTag d;
  const auto one = hn::Set(d, 1.f);
  for (int64_t lane = 0; lane < kImageLanes; lane += kImageStep) {
    auto sum = hn::Zero(d);
    for (int64_t i = lane; i < numbers * kImageLanes; i += kImageLanes) {
      const auto made = sigmoid(hn::Load(d, logits + i));
      const auto error = made - hn::Load(d, target + i);
      sum = hn::MulAdd(error, error, sum);
      hn::Store((error + error) * made * (one - made), d, logits + i);
    }
    hn::Store(hn::Load(d, loss + lane) + sum, d, loss + lane);
  }
}

// the same of their cross-entropy: max(u, 0) - u t + ln(1 + exp(-|u|)) of a logit u
HWY_INLINE void cross_entropies(const float* target, int64_t numbers, float* logits, float* loss) {
  const ImageTag d;
  const auto one = hn::Set(d, 1.f), zero = hn::Zero(d);
  for (int64_t lane = 0; lane < kImageLanes; lane += kImageStep) {
    auto sum = zero;
    for (int64_t i = lane; i < numbers * kImageLanes; i += kImageLanes) {
      const auto u = hn::Load(d, logits + i), t = hn::Load(d, target + i);
      sum += hn::NegMulAdd(u, t, larger_of(u, zero)) +
             log_vector(d, one + exp_vector(d, hn::Neg(hn::Abs(u))));
      hn::Store(sigmoid(u) - t, d, logits + i);
    }
    hn::Store(hn::Load(d, loss + lane) + sum, d, loss + lane);
  }
}

// row y of the first stage's image
HWY_INLINE void x_row(const DecoderStage& stage, const float* x, int64_t count, int64_t y,
                      float* to) {
  const int64_t numbers = stage.width * stage.in;
  rows_to_lanes(x + y * numbers, stage.height * numbers, count, numbers, to);
}

// row y of what a stage made, as the next one takes it
HWY_INLINE void made_row(const DecoderStage& next, const float* made, const float* scale, int64_t y,
                         float* to) {
  norm_silu(made + y * next.width * next.in * kImageLanes, scale, next.width, next.in, to);
}

template <class Way>
void decoder_forward(const DecoderForward& f) {
  const DecoderScratch scratch(f.tower);
  Way way(scratch.way, f.scratch);
  float *input = f.scratch + scratch.input, *output = f.scratch + scratch.output;
  float *pixels = f.scratch + scratch.pixels, *loss = f.scratch + scratch.lanes;
  std::fill_n(loss, kImageLanes, 0.f);
  const DecoderStage smallest = decoder_stage(f.tower, 0);
  for (int64_t y = 0; y < smallest.height; ++y) {
    float* row = input + y * smallest.seen().floats();
    x_row(smallest, f.x, f.count, y, way.begin(row, smallest.seen()));
    way.see(row, smallest.seen());
  }
  for (int64_t s = 0; s < f.tower.stages(); ++s) {
    const DecoderStage stage = decoder_stage(f.tower, s);
    const DecoderStage next = stage.last ? DecoderStage{} : decoder_stage(f.tower, s + 1);
    for (int64_t y = 0; y < stage.height; ++y) {
      // a row of places is two rows of what is made
      float* made = f.kept + stage.made + kDouble * y * stage.made_row();
      way.sum({.x = input,
               .of = stage.seen(),
               .seen = seen_rows(y, kSmallPad, kSmallKernel, stage.height),
               .rows = kSmallKernel,
               .columns = kSmallKernel,
               .weight = f.packed + stage.weight,
               .start = f.packed + stage.start,
               .outs = stage.outs(),
               .y = made,
               .y_place = stage.pair() * kImageLanes,
               .half = stage.pair(),
               .below = stage.made_row() - stage.pair() * kImageLanes});
      for (int64_t k = kDouble * y; k < kDouble * (y + 1); ++k, made += stage.made_row()) {
        if (!stage.last) {
          float* row = output + k * next.seen().floats();
          made_row(next, f.kept + stage.made, f.stages[s].scale, k, way.begin(row, next.seen()));
          way.see(row, next.seen());
          continue;
        }
        // beyond the image nothing is wrong
        const int64_t numbers = k < f.tower.height ? f.tower.row() : 0;
        bytes_to_lanes(f.images + k * f.tower.row(), f.tower.pixels(), f.count, numbers, 1 / 255.f,
                       0.f, pixels);
        if (f.error == ImageError::squared) errors(pixels, numbers, made, loss);
        else cross_entropies(pixels, numbers, made, loss);
        std::fill(made + numbers * kImageLanes, made + stage.made_row(), 0.f);
      }
    }
    std::swap(input, output);
  }
  std::copy_n(loss, f.count, f.loss);
}

// the last stage's gradients of a row by those of the losses; the bias' are added to d_bias
HWY_INLINE void scale_slopes(const DecoderStage& stage, const float* made, const float* d_loss,
                             float* slopes, float* d_bias) {
  const ImageTag d;
  const int64_t step = stage.out * kImageLanes;
  for (int64_t first = 0; first < stage.made_row(); first += step)
    for (int64_t i = 0; i < step; i += kImageStep) {
      const auto factor = hn::Load(d, d_loss + i % kImageLanes);
      const auto dz = hn::Load(d, made + first + i) * factor;
      hn::Store(hn::Load(d, d_bias + i) + dz, d, d_bias + i);
      hn::Store(dz, d, slopes + first + i);
    }
}

// gradients of a stage's weights: those of its four kernels, then each tap of the large one takes
// the sums it went into
template <class Way>
HWY_INLINE void add_weight_grads(Way& way, const DecoderStage& stage, const float* input,
                                 const float* slopes, float* parts, float* grad) {
  const int64_t depth = kSmallKernel * stage.in, part = kSmallKernel * depth * stage.pair();
  const int64_t chunk = way.chunk(stage.seen(), stage.slopes(), kDouble);
  const int64_t row_of_slopes = way.slopes_row(stage.slopes());
  std::fill_n(parts, kDouble * part, 0.f);
  for (int64_t first = 0; first < stage.height; first += chunk)
    for (int64_t a = 0; a < kDouble; ++a)
      way.add_grads({.x = input,
                     .of = stage.seen(),
                     .slopes = slopes + (kDouble * first + a) * row_of_slopes,
                     .slopes_of = stage.slopes(),
                     .slopes_step = kDouble,
                     .height = stage.height,
                     .first = first,
                     .last = std::min(stage.height, first + chunk),
                     .kernel = kSmallKernel,
                     .grad = parts + a * part});
  for (int64_t o = 0; o < stage.out; ++o)
    for (int64_t c = 0; c < stage.in; ++c)
      for (int64_t r = 0; r < kKernel; ++r)
        for (int64_t k = 0; k < kKernel; ++k, ++grad)
          for (int64_t a = 0; a < kDouble; ++a)
            for (int64_t b = 0; b < kDouble; ++b) {
              const int64_t row = (r + a) / kDouble, j = (k + b) / kDouble * stage.in + c;
              *grad += parts[a * part + (row * depth + j) * stage.pair() + b * stage.out + o];
            }
}

template <class Way>
void decoder_backward(const DecoderBackward& b) {
  const DecoderScratch scratch(b.tower);
  Way way(scratch.way, b.scratch);
  float* input = b.scratch + scratch.input;
  float *slopes = b.scratch + scratch.slopes, *below = b.scratch + scratch.below;
  float *words = b.scratch + scratch.way.pairs, *lanes = b.scratch + scratch.lanes;
  HWY_ALIGN float d_loss[kImageLanes] = {};
  std::copy_n(b.d_loss, b.count, d_loss);
  for (int64_t s = b.tower.stages(); s-- > 0;) {
    const DecoderStage stage = decoder_stage(b.tower, s);
    float* d_bias = lanes + stage.out * kImageLanes;
    if (stage.last) {
      std::fill_n(d_bias, stage.out * kImageLanes, 0.f);
      const Row of = stage.slopes();
      for (int64_t y = 0; y < kDouble * stage.height; ++y) {
        float* row = slopes + y * of.floats();
        scale_slopes(stage, b.kept + stage.made + y * stage.made_row(), d_loss, way.begin(row, of),
                     d_bias);
        way.see_slopes(row, words + y * of.slope_words(), of, true);
      }
      add_lanes(d_bias, stage.out, b.grads[s].bias);
    }
    // what the convolution saw, and its gradients
    const DecoderStage before = s > 0 ? decoder_stage(b.tower, s - 1) : DecoderStage{};
    const Row seen = stage.seen();
    way.begin_grads(input, seen, stage.height);
    for (int64_t y = 0; y < stage.height; ++y) {
      float* row = way.grads_row(input, seen, y);
      float* to = way.begin(row, seen);
      if (s == 0) x_row(stage, b.x, b.count, y, to);
      else made_row(stage, b.kept + before.made, b.stages[s - 1].scale, y, to);
      way.see_for_grads(row, seen);
    }
    add_weight_grads(way, stage, input, way.slopes(slopes, words), b.scratch + scratch.weight,
                     b.grads[s].weight);
    // of what it saw, where the stage before takes its own from
    const Row below_of = before.slopes();
    const int64_t numbers = stage.width * stage.in * kImageLanes;
    float* d_scale = lanes;
    float* d_shift = lanes + stage.in * kImageLanes;
    std::fill_n(lanes, 2 * stage.in * kImageLanes, 0.f);
    for (int64_t y = 0; y < stage.height; ++y) {
      float* row = below + y * (s > 0 ? below_of.floats() : numbers);
      float* to = s > 0 ? way.begin(row, below_of) : row;
      way.sum({.x = slopes,
               .of = stage.slopes(),
               .seen = seen_rows(kDouble * y, kDouble * kSmallPad, stage.turned_rows(),
                                 kDouble * stage.height),
               .rows = stage.turned_rows(),
               .columns = kSmallKernel,
               .weight = b.packed + stage.turned,
               .start = b.packed + stage.none,
               .outs = stage.in,
               .y = to,
               .y_place = stage.in * kImageLanes,
               .half = stage.in,
               .below = 0});
      if (s == 0) {
        lanes_to_rows(to, b.count, stage.width * stage.in, b.dx + y * stage.width * stage.in,
                      b.tower.token());
        continue;
      }
      norm_silu_grad(b.kept + before.made + y * numbers, b.stages[s - 1].scale, stage.width,
                     stage.in, to, d_scale, d_shift);
      way.see_slopes(row, words + y * below_of.slope_words(), below_of, true);
    }
    if (s > 0) {
      add_lanes(d_scale, stage.in, b.grads[s - 1].scale);
      add_lanes(d_shift, stage.in, b.grads[s - 1].bias);
    }
    std::swap(slopes, below);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#endif
