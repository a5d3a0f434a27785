#include "kernels/dense/dense.h"

#include <algorithm>
#include <bit>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dense/dense_cpu.cpp"
#include <hwy/aligned_allocator.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/core/bfloat16.h"
#include "base/core/error.h"
#include "base/simd/product-inl.h"
#include "base/trace/span.h"
#include "kernels/dense/end-inl.h"
#include "kernels/dense/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void dense(const DenseForward& a) {
  packed_product({.weight = a.weight,
                  .in = a.in,
                  .out = a.out,
                  .segments = a.segments,
                  .stride = a.stride,
                  .rows = a.rows},
                 WriteSums{a.start, a.start_step, a.y, a.stride});
  if (a.end == DenseEnd::none) return;
  end_panel({.end = a.end,
             .out = a.out,
             .gain = a.gain,
             .shift = a.shift,
             .factor = a.factor,
             .z = a.y,
             .xhat = a.xhat,
             .rstd = a.rstd,
             .stride = a.stride,
             .rows = a.rows},
            StorePanel{a.y, a.stride});
}

void panel_end(const DensePanelEnd& a) {
  if (a.pairs) end_panel(a, StorePairs{a.pairs, a.stride});
  else end_panel(a, StorePanel{a.z, a.stride});
}

// tiles whose outputs are read side by side: a piece of a few cache lines, not lines far apart
constexpr int64_t kTilesAtOnce = 8;

// outputs side by side: tile after tile copied, input after input
void copy_tiles(const DensePack& a) {
  constexpr int64_t kBlock = kTilesAtOnce * kDenseTile;
  for (int64_t block = 0; block < a.out; block += kBlock)
    for (int64_t i = 0; i < a.in; ++i) {
      const float* from = a.weight + i * a.in_step;
      for (int64_t o = block; o < std::min(block + kBlock, a.out); o += kDenseTile) {
        float* to = a.packed + o * a.in + i * kDenseTile;
        if (o + kDenseTile <= a.out) std::memcpy(to, from + o, kDenseTile * sizeof(float));
        else std::fill(std::copy(from + o, from + a.out, to), to + kDenseTile, 0.f);
      }
    }
}

// inputs side by side: a tile's rows turned, 16 inputs at a time, while the next tile's are fetched
void turn_tiles(const DensePack& a) {
  constexpr int64_t kTurned = 16;
  for (int64_t o = 0; o < a.out; o += kDenseTile) {
    const float* from = a.weight + o * a.out_step;
    float* to = a.packed + o * a.in;
    int64_t i = 0;
    // whole vectors read nothing behind a row
    for (; o + kDenseTile <= a.out && i + kTurned <= a.in; i += kTurned) {
      for (int64_t k = 0; k < kDenseTile && o + kDenseTile + k < a.out; ++k)
        hwy::Prefetch(from + (kDenseTile + k) * a.out_step + i);
      transpose(from + i, kDenseTile, a.out_step, kTurned, to + i * kDenseTile, kDenseTile);
    }
    for (; i < a.in; ++i)
      for (int64_t k = 0; k < kDenseTile; ++k)
        to[i * kDenseTile + k] = o + k < a.out ? from[k * a.out_step + i] : 0.f;
  }
}

void pack(const DensePack& a) {
  if (a.out_step == 1) return copy_tiles(a);
  MAGLEV_ASSERT(a.in_step == 1, "outputs or inputs lie side by side");
  turn_tiles(a);
}

float as_float(float x) { return x; }
float as_float(uint16_t x) { return std::bit_cast<float>(uint32_t(x) << 16); }
void write(float x, float* to) { *to = x; }
void write(float x, uint16_t* to) { *to = bfloat16_bits(x); }

template <class T>
void end_rows_of(const DenseEndRows& a, int64_t env, int64_t net, float* panel) {
  const auto place = [=](const DenseSteps& s) { return env * s.env + net * s.net; };
  const T* x = static_cast<const T*>(a.x) + place(a.from);
  T* y = static_cast<T*>(a.y) + place(a.to);
  const float* start = a.start ? a.start + place(a.start_steps) : nullptr;
  // rows of all networks, one behind the other
  const int64_t before = (env * a.nets + net) * a.rows;
  for (int64_t first = 0; first < a.rows; first += kPanelRows) {
    const int64_t count = std::min(kPanelRows, a.rows - first);
    const int64_t dense = (before + first) * a.features;
    for (int64_t r = 0; r < kPanelRows; ++r)
      for (int64_t f = 0; f < a.features; ++f) {
        float& z = panel[f * kPanelRows + r] =
            r < count ? as_float(x[(first + r) * a.from.row + f]) + (start ? start[f] : 0.f) : 0.f;
        if (a.uniform && r < count)
          z *= dropout_factor(a.uniform[dense + r * a.features + f], a.share);
      }
    end_panel({.end = a.end,
               .out = a.features,
               .gain = a.gain + place(a.gain_steps),
               .shift = a.shift + place(a.gain_steps),
               .z = panel,
               .stride = kPanelRows,
               .rows = count},
              StorePanel{panel, kPanelRows});
    for (int64_t r = 0; r < count; ++r)
      for (int64_t f = 0; f < a.features; ++f)
        write(panel[f * kPanelRows + r], y + (first + r) * a.to.row + f);
    if (a.exact) panel_to_rows(panel, count, a.features, a.exact + dense);
  }
}

void end_rows(const DenseEndRows& a) {
  auto panel = hwy::AllocateAligned<float>(size_t(a.features * kPanelRows));
  for (int64_t env = 0; env < a.envs; ++env)
    for (int64_t net = 0; net < a.nets; ++net)
      if (a.bf16) end_rows_of<uint16_t>(a, env, net, panel.get());
      else end_rows_of<float>(a, env, net, panel.get());
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(dense);
HWY_EXPORT(panel_end);
HWY_EXPORT(end_rows);
HWY_EXPORT(pack);

void dense_cpu(const DenseForward& args) {
  const auto span = trace::kernel("dense", 2 * args.in * args.out * args.rows);
  HWY_DYNAMIC_DISPATCH(dense)(args);
}
void dense_panel_end_cpu(const DensePanelEnd& args) { HWY_DYNAMIC_DISPATCH(panel_end)(args); }
void dense_end_cpu(const DenseEndRows& args) { HWY_DYNAMIC_DISPATCH(end_rows)(args); }
void pack_dense(const DensePack& args) { HWY_DYNAMIC_DISPATCH(pack)(args); }

}  // namespace maglev
#endif
