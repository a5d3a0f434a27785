#include <algorithm>

#include "kernels/image_towers/image_towers.h"
#include "kernels/image_towers/layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/image_towers/decoder_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/image_towers/stage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace towers;

// the first stage's image, as its convolution takes it
HWY_INLINE void rows_to_input(const DecoderStage& stage, const float* x, int64_t count,
                              float* input) {
  const int64_t sides = kSmallPad * stage.in * kImageLanes, numbers = stage.width * stage.in;
  for (int64_t y = 0; y < stage.height; ++y, input += stage.in_row()) {
    clear_sides(input, stage.in_row(), sides);
    rows_to_lanes(x + y * numbers, stage.height * numbers, count, numbers, input + sides);
  }
}

// row y of what the stage before made, as this one's convolution takes it
HWY_INLINE void made_to_input(const DecoderStage& stage, const float* made, const float* scale,
                              int64_t y, float* input) {
  const int64_t sides = kSmallPad * stage.in * kImageLanes;
  float* row = input + y * stage.in_row();
  clear_sides(row, stage.in_row(), sides);
  norm_silu(made + y * stage.width * stage.in * kImageLanes, scale, stage.width, stage.in,
            row + sides);
}

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

void decoder_forward(const DecoderForward& f) {
  const DecoderScratch scratch(f.tower);
  float *input = f.scratch + scratch.input, *output = f.scratch + scratch.output;
  float *pixels = f.scratch + scratch.pixels, *loss = f.scratch + scratch.lanes;
  std::fill_n(loss, kImageLanes, 0.f);
  rows_to_input(decoder_stage(f.tower, 0), f.x, f.count, input);
  for (int64_t s = 0; s < f.tower.stages(); ++s) {
    const DecoderStage stage = decoder_stage(f.tower, s);
    const DecoderStage next = stage.last ? DecoderStage{} : decoder_stage(f.tower, s + 1);
    for (int64_t y = 0; y < stage.height; ++y) {
      // a row of places is two rows of what is made
      const Seen seen = seen_rows(y, kSmallPad, kSmallKernel, stage.height);
      float* made = f.kept + stage.made + kDouble * y * stage.made_row();
      sum_windows({.x = input + seen.first * stage.in_row(),
                   .x_row = stage.in_row(),
                   .x_place = stage.in * kImageLanes,
                   .rows = seen.count,
                   .depth = stage.depth(),
                   .weight = f.packed + stage.weight + seen.cut * stage.depth() * kOutBlock,
                   .weight_block = kSmallKernel * stage.depth() * kOutBlock,
                   .start = f.packed + stage.start,
                   .places = stage.width,
                   .outs = stage.outs(),
                   .y = made,
                   .y_place = stage.pair() * kImageLanes,
                   .half = stage.pair(),
                   .below = stage.made_row() - stage.pair() * kImageLanes});
      for (int64_t k = kDouble * y; k < kDouble * (y + 1); ++k, made += stage.made_row()) {
        if (!stage.last) {
          made_to_input(next, f.kept + stage.made, f.stages[s].scale, k, output);
          continue;
        }
        const int64_t numbers = f.tower.width * stage.out;
        bytes_to_lanes(f.images + k * numbers, f.tower.pixels(), f.count, numbers, 1 / 255.f, 0.f,
                       pixels);
        errors(pixels, numbers, made, loss);
      }
    }
    std::swap(input, output);
  }
  std::copy_n(loss, f.count, f.loss);
}

// the last stage's gradients by those of the losses, sides 0; the bias' are added to d_bias
HWY_INLINE void scale_slopes(const DecoderStage& stage, const float* made, const float* d_loss,
                             float* slopes, float* d_bias) {
  const ImageTag d;
  const int64_t numbers = stage.made_row(), step = stage.out * kImageLanes;
  for (int64_t y = 0; y < kDouble * stage.height; ++y, made += numbers, slopes += stage.out_row()) {
    clear_sides(slopes, stage.out_row(), stage.sides());
    for (int64_t first = 0; first < numbers; first += step)
      for (int64_t i = 0; i < step; i += kImageStep) {
        const auto factor = hn::Load(d, d_loss + i % kImageLanes);
        const auto dz = hn::Load(d, made + first + i) * factor;
        hn::Store(hn::Load(d, d_bias + i) + dz, d, d_bias + i);
        hn::Store(dz, d, slopes + stage.sides() + first + i);
      }
  }
}

// gradients of a stage's weights: those of its four kernels, then each tap of the large one takes
// the sums it went into
HWY_INLINE void add_weight_grads(const DecoderStage& stage, const float* input, const float* slopes,
                                 float* parts, float* grad) {
  const int64_t part = kSmallKernel * stage.depth() * stage.pair();
  const int64_t chunk = chunk_rows(stage.width);
  std::fill_n(parts, kDouble * part, 0.f);
  for (int64_t first = 0; first < stage.height; first += chunk)
    for (int64_t a = 0; a < kDouble; ++a)
      add_window_grads({.x = input,
                        .x_row = stage.in_row(),
                        .x_place = stage.in * kImageLanes,
                        .above = kSmallPad,
                        .dz = slopes + (kDouble * first + a) * stage.out_row() + stage.sides(),
                        .dz_row = kDouble * stage.out_row(),
                        .dz_place = stage.pair() * kImageLanes,
                        .height = stage.height,
                        .places = stage.width,
                        .first = first,
                        .last = std::min(stage.height, first + chunk),
                        .rows = kSmallKernel,
                        .columns = kSmallKernel,
                        .channels = stage.in,
                        .outs = stage.pair(),
                        .grad = parts + a * part});
  for (int64_t o = 0; o < stage.out; ++o)
    for (int64_t c = 0; c < stage.in; ++c)
      for (int64_t r = 0; r < kKernel; ++r)
        for (int64_t k = 0; k < kKernel; ++k, ++grad)
          for (int64_t a = 0; a < kDouble; ++a)
            for (int64_t b = 0; b < kDouble; ++b) {
              const int64_t row = (r + a) / kDouble, j = (k + b) / kDouble * stage.in + c;
              *grad +=
                  parts[a * part + (row * stage.depth() + j) * stage.pair() + b * stage.out + o];
            }
}

void decoder_backward(const DecoderBackward& b) {
  const DecoderScratch scratch(b.tower);
  float* input = b.scratch + scratch.input;
  float *slopes = b.scratch + scratch.slopes, *below = b.scratch + scratch.below;
  float* lanes = b.scratch + scratch.lanes;
  HWY_ALIGN float d_loss[kImageLanes] = {};
  std::copy_n(b.d_loss, b.count, d_loss);
  for (int64_t s = b.tower.stages(); s-- > 0;) {
    const DecoderStage stage = decoder_stage(b.tower, s);
    float* d_bias = lanes + stage.out * kImageLanes;
    if (stage.last) {
      std::fill_n(d_bias, stage.out * kImageLanes, 0.f);
      scale_slopes(stage, b.kept + stage.made, d_loss, slopes, d_bias);
      add_lanes(d_bias, stage.out, b.grads[s].bias);
    }
    // what the convolution saw, and its gradients
    if (s == 0) {
      rows_to_input(stage, b.x, b.count, input);
    } else {
      const DecoderStage before = decoder_stage(b.tower, s - 1);
      for (int64_t y = 0; y < stage.height; ++y)
        made_to_input(stage, b.kept + before.made, b.stages[s - 1].scale, y, input);
    }
    add_weight_grads(stage, input, slopes, b.scratch + scratch.weight, b.grads[s].weight);
    // of what it saw, where the stage before takes its own from
    const DecoderStage before = s > 0 ? decoder_stage(b.tower, s - 1) : DecoderStage{};
    const int64_t numbers = stage.width * stage.in * kImageLanes;
    const int64_t row = s > 0 ? before.out_row() : numbers;
    const int64_t sides = s > 0 ? before.sides() : 0;
    float* d_scale = lanes;
    float* d_shift = lanes + stage.in * kImageLanes;
    std::fill_n(lanes, 2 * stage.in * kImageLanes, 0.f);
    for (int64_t y = 0; y < stage.height; ++y) {
      const Seen seen =
          seen_rows(kDouble * y, kDouble * kSmallPad, stage.turned_rows(), kDouble * stage.height);
      float* to = below + y * row;
      clear_sides(to, row, sides);
      sum_windows({.x = slopes + seen.first * stage.out_row(),
                   .x_row = stage.out_row(),
                   .x_place = stage.pair() * kImageLanes,
                   .rows = seen.count,
                   .depth = stage.turned_depth(),
                   .weight = b.packed + stage.turned + seen.cut * stage.turned_depth() * kOutBlock,
                   .weight_block = stage.turned_rows() * stage.turned_depth() * kOutBlock,
                   .start = b.packed + stage.none,
                   .places = stage.width,
                   .outs = stage.in,
                   .y = to + sides,
                   .y_place = stage.in * kImageLanes,
                   .half = stage.in,
                   .below = 0});
      if (s > 0)
        norm_silu_grad(b.kept + before.made + y * numbers, b.stages[s - 1].scale, stage.width,
                       stage.in, to + sides, d_scale, d_shift);
      else
        lanes_to_rows(to, b.count, stage.width * stage.in, b.dx + y * stage.width * stage.in,
                      b.tower.token());
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

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(decoder_forward);
HWY_EXPORT(decoder_backward);

TowerSizes decoder_sizes(const ImageTower& tower) {
  TowerSizes sizes = towers::each_decoder_stage(tower, [](int64_t, const towers::DecoderStage&) {});
  sizes.scratch = towers::DecoderScratch(tower).end;
  return sizes;
}

void pack_decoder_cpu(const ImageTower& tower, std::span<const TowerStage> stages, float* packed) {
  using namespace towers;
  std::fill_n(packed, decoder_sizes(tower).packed, 0.f);
  each_decoder_stage(tower, [&](int64_t s, const DecoderStage& stage) {
    const float* from = stages[s].weight;
    // tap r of rows with corner a above or below falls on row (r + a) / 2 of the small image
    const auto add = [&](int64_t o, int64_t c, int64_t r, int64_t k, int64_t a, int64_t b) {
      const int64_t row = (r + a) / kDouble, column = (k + b) / kDouble;
      const int64_t out = a * stage.pair() + b * stage.out + o;
      packed[stage.weight +
             packed_place(out, row, column * stage.in + c, kSmallKernel, stage.depth())] += *from;
      const int64_t turned_row = (kSmallKernel - 1 - row) * kDouble + a;
      const int64_t turned = (kSmallKernel - 1 - column) * stage.pair() + b * stage.out + o;
      packed[stage.turned + packed_place(c, turned_row, turned, stage.turned_rows(),
                                         stage.turned_depth())] += *from;
    };
    for (int64_t o = 0; o < stage.out; ++o) {
      for (int64_t corner = 0; corner < kDouble * kDouble; ++corner)
        packed[stage.start + corner * stage.out + o] = stages[s].bias[o];
      for (int64_t c = 0; c < stage.in; ++c)
        for (int64_t r = 0; r < kKernel; ++r)
          for (int64_t k = 0; k < kKernel; ++k, ++from)
            for (int64_t a = 0; a < kDouble; ++a)
              for (int64_t b = 0; b < kDouble; ++b) add(o, c, r, k, a, b);
    }
  });
}

void decoder_forward_cpu(const DecoderForward& args) {
  HWY_DYNAMIC_DISPATCH(decoder_forward)(args);
}
void decoder_backward_cpu(const DecoderBackward& args) {
  HWY_DYNAMIC_DISPATCH(decoder_backward)(args);
}

}  // namespace maglev
#endif
