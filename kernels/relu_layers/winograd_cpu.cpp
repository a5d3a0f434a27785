#include "kernels/relu_layers/winograd.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/relu_layers/winograd_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd/product-inl.h"
#include "base/trace/span.h"
#include "kernels/relu_layers/winograd-inl.h"

#ifndef MAGLEV_KERNELS_WINOGRAD_BLOCK_
#define MAGLEV_KERNELS_WINOGRAD_BLOCK_
namespace maglev {
namespace {

constexpr int64_t kPoints = 36;
/// Tiles at once: of products' six rows, and few enough that what is made of them stays in a second
/// cache.
constexpr int64_t kBlock = 36;

// a point's matrix [tiles][features] of a block; a cache line more than it has, for 36 streams at
// distances of 4 KiB would share a few sets of the first cache
constexpr int64_t point_step(int64_t features) { return kBlock * features + kWinogradStep; }

}  // namespace
}  // namespace maglev
#endif

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Where kSide x kSide places of a tile lie in what it sees, or makes, [images, height, width,
/// features]; those outside of the image are `outside`.
template <int kSide, class Float>
struct TilePlaces {
  Float* place[kSide][kSide];

  TilePlaces(const Winograd& s, int64_t tile, int64_t features, Float* images, Float* outside) {
    constexpr bool kSees = kSide == kSeen;
    const int64_t height = kSees ? s.height : s.made_height();
    const int64_t width = kSees ? s.width : s.made_width(), margin = kSees ? s.padding : 0;
    const int64_t across = s.tiles_across(), down = s.tiles_down();
    const int64_t image = tile / (down * across);
    const int64_t top = tile / across % down * kMade - margin;
    const int64_t left = tile % across * kMade - margin;
    for (int64_t i = 0; i < kSide; ++i)
      for (int64_t j = 0; j < kSide; ++j) {
        const int64_t y = top + i, x = left + j;
        const bool within = y >= 0 && y < height && x >= 0 && x < width;
        place[i][j] = within ? images + ((image * height + y) * width + x) * features : outside;
      }
  }
};

/// weight [3][3][in][out] -> at each point [in][out].
void transform_weights(int64_t in, int64_t out, const float* weight, float* points) {
  const hn::CappedTag<float, kWinogradStep> d;
  for (int64_t k = 0; k < in * out; k += int64_t(hn::Lanes(d)))
    both_sides<Filter>(
        d, [&](int i, int j) { return hn::LoadU(d, weight + (i * kFilter + j) * in * out + k); },
        [&](int i, int j, auto v) { hn::Store(v, d, points + (i * kSeen + j) * in * out + k); });
}

/// `count` tiles of x from `first` on -> at each point [tiles][channels].
void transform_inputs(const Winograd& s, const float* x, int64_t first, int64_t count,
                      const float* zeros, float* points) {
  const hn::CappedTag<float, kWinogradStep> d;
  for (int64_t t = 0; t < count; ++t) {
    const TilePlaces<kSeen, const float> seen(s, first + t, s.channels, x, zeros);
    for (int64_t c = 0; c < s.channels; c += int64_t(hn::Lanes(d)))
      both_sides<SeenTile>(
          d, [&](int i, int j) { return hn::LoadU(d, seen.place[i][j] + c); },
          [&](int i, int j, auto v) {
            float* point = points + (i * kSeen + j) * point_step(s.channels);
            hn::Store(v, d, point + t * s.channels + c);
          });
  }
}

void winograd_forward(const WinogradForward& f) {
  const hn::CappedTag<float, kWinogradStep> d;
  const Winograd& s = f.shape;
  float* weights = f.scratch;
  float* inputs = weights + kPoints * s.channels * s.outs;
  float* sums = inputs + kPoints * point_step(s.channels);
  float* zeros = sums + kPoints * point_step(s.outs);
  float* nowhere = zeros + s.channels;
  std::fill_n(zeros, s.channels, 0.f);
  transform_weights(s.channels, s.outs, f.weight, weights);
  for (int64_t first = 0; first < s.tiles(); first += kBlock) {
    const int64_t count = std::min(kBlock, s.tiles() - first);
    transform_inputs(s, f.x, first, count, zeros, inputs);
    for (int64_t p = 0; p < kPoints; ++p)
      multiply({.a = inputs + p * point_step(s.channels),
                .a_row = s.channels,
                .a_column = 1,
                .b = weights + p * s.channels * s.outs,
                .b_row = s.outs,
                .rows = count,
                .columns = s.outs,
                .depth = s.channels},
               WritePanel<false>{sums + p * point_step(s.outs), s.outs});
    // back to places, with bias and ReLU; NaN stays
    for (int64_t t = 0; t < count; ++t) {
      const TilePlaces<kMade, float> made(s, first + t, s.outs, f.y, nowhere);
      for (int64_t o = 0; o < s.outs; o += int64_t(hn::Lanes(d))) {
        const auto bias = hn::LoadU(d, f.bias + o);
        both_sides<MadeTile>(
            d,
            [&](int i, int j) {
              return hn::Load(d, sums + (i * kSeen + j) * point_step(s.outs) + t * s.outs + o);
            },
            [&](int i, int j, auto v) {
              const auto z = v + bias;
              hn::StoreU(hn::IfThenZeroElse(z < hn::Zero(d), z), d, made.place[i][j] + o);
            });
      }
    }
  }
}

void winograd_backward(const WinogradBackward& b) {
  const hn::CappedTag<float, kWinogradStep> d;
  const Winograd& s = b.shape;
  const int64_t weights_size = s.channels * s.outs;
  float* inputs = b.scratch;
  float* slopes = inputs + kPoints * point_step(s.channels);
  float* weights = slopes + kPoints * point_step(s.outs);
  float* d_weights = weights + kPoints * weights_size;
  float* zeros = d_weights + kPoints * weights_size;
  float* nowhere = zeros + std::max(s.channels, s.outs);
  std::fill_n(zeros, std::max(s.channels, s.outs), 0.f);
  std::fill_n(nowhere, s.channels, 0.f);
  std::fill_n(d_weights, kPoints * weights_size, 0.f);
  std::fill_n(b.d_bias, s.outs, 0.f);
  if (b.dx) {
    std::fill_n(b.dx, s.images * s.height * s.width * s.channels, 0.f);
    transform_weights(s.outs, s.channels, b.weight, weights);
  }
  for (int64_t first = 0; first < s.tiles(); first += kBlock) {
    const int64_t count = std::min(kBlock, s.tiles() - first);
    transform_inputs(s, b.x, first, count, zeros, inputs);
    // back through ReLU, the bias on the way
    for (int64_t t = 0; t < count; ++t) {
      const TilePlaces<kMade, const float> y(s, first + t, s.outs, b.y, zeros);
      const TilePlaces<kMade, const float> dy(s, first + t, s.outs, b.dy, zeros);
      for (int64_t o = 0; o < s.outs; o += int64_t(hn::Lanes(d))) {
        auto bias = hn::LoadU(d, b.d_bias + o);
        both_sides<MadeTileGrad>(
            d,
            [&](int i, int j) {
              const auto shut = hn::LoadU(d, y.place[i][j] + o) <= hn::Zero(d);
              const auto dz = hn::IfThenZeroElse(shut, hn::LoadU(d, dy.place[i][j] + o));
              bias = bias + dz;
              return dz;
            },
            [&](int i, int j, auto v) {
              hn::Store(v, d, slopes + (i * kSeen + j) * point_step(s.outs) + t * s.outs + o);
            });
        hn::StoreU(bias, d, b.d_bias + o);
      }
    }
    for (int64_t p = 0; p < kPoints; ++p) {
      float* seen = inputs + p * point_step(s.channels);
      const float* slope = slopes + p * point_step(s.outs);
      multiply({.a = seen,
                .a_row = 1,
                .a_column = s.channels,
                .b = slope,
                .b_row = s.outs,
                .rows = s.channels,
                .columns = s.outs,
                .depth = count},
               WritePanel<true>{d_weights + p * weights_size, s.outs});
      // what was seen has served: its gradients take its place
      if (b.dx)
        multiply({.a = slope,
                  .a_row = s.outs,
                  .a_column = 1,
                  .b = weights + p * weights_size,
                  .b_row = s.channels,
                  .rows = count,
                  .columns = s.channels,
                  .depth = s.outs},
                 WritePanel<false>{seen, s.channels});
    }
    // tiles see each other's edges: their gradients are added
    for (int64_t t = 0; b.dx && t < count; ++t) {
      const TilePlaces<kSeen, float> seen(s, first + t, s.channels, b.dx, nowhere);
      for (int64_t c = 0; c < s.channels; c += int64_t(hn::Lanes(d)))
        both_sides<SeenTileGrad>(
            d,
            [&](int i, int j) {
              return hn::Load(
                  d, inputs + (i * kSeen + j) * point_step(s.channels) + t * s.channels + c);
            },
            [&](int i, int j, auto v) {
              float* to = seen.place[i][j] + c;
              hn::StoreU(hn::LoadU(d, to) + v, d, to);
            });
    }
  }
  for (int64_t k = 0; k < weights_size; k += int64_t(hn::Lanes(d)))
    both_sides<FilterGrad>(
        d,
        [&](int i, int j) { return hn::Load(d, d_weights + (i * kSeen + j) * weights_size + k); },
        [&](int i, int j, auto v) {
          hn::StoreU(v, d, b.d_weight + (i * kFilter + j) * weights_size + k);
        });
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(winograd_forward);
HWY_EXPORT(winograd_backward);

int64_t Winograd::flops() const { return 2 * kPoints * tiles() * channels * outs; }
int64_t Winograd::forward_scratch() const {
  return kPoints * (channels * outs + point_step(channels) + point_step(outs)) + channels + outs;
}
int64_t Winograd::backward_scratch() const {
  return kPoints * (2 * channels * outs + point_step(channels) + point_step(outs)) +
         std::max(channels, outs) + channels;
}

void winograd_forward_cpu(const WinogradForward& args) {
  const auto span = trace::kernel("winograd_forward", args.shape.flops());
  HWY_DYNAMIC_DISPATCH(winograd_forward)(args);
}
void winograd_backward_cpu(const WinogradBackward& args) {
  const auto span = trace::kernel("winograd_backward", (args.dx ? 2 : 1) * args.shape.flops());
  HWY_DYNAMIC_DISPATCH(winograd_backward)(args);
}

}  // namespace maglev
#endif
