// Back through the end of a layer on rows: panel by panel, each a part.

#include <algorithm>
#include <bit>

#include <hwy/aligned_allocator.h>

#include "base/core/bfloat16.h"
#include "kernels/dense_grad/dense_grad.h"

namespace maglev {
namespace {

float row_number(const float* x) { return *x; }
float row_number(const uint16_t* x) { return std::bit_cast<float>(uint32_t(*x) << 16); }
void put_row_number(float x, float* to) { *to = x; }
void put_row_number(float x, uint16_t* to) { *to = bfloat16_bits(x); }

// [features][kEndGradRows], zeros behind the last row
struct RowPanel {
  explicit RowPanel(int64_t features)
      : memory(hwy::AllocateAligned<float>(size_t(features * kEndGradRows))) {
    std::fill_n(memory.get(), features * kEndGradRows, 0.f);
  }
  float& operator()(int64_t f, int64_t r) { return memory[size_t(f * kEndGradRows + r)]; }
  float* get() { return memory.get(); }

  hwy::AlignedFreeUniquePtr<float[]> memory;
};

// rows [first, first + count) of a network; `part` [3][features] or null
template <class T>
void end_rows_back(const DenseEndRowsGrad& g, int64_t net, int64_t first, int64_t count,
                   float* part) {
  const DenseEndRows& a = g.of;
  const int64_t F = a.features;
  const auto row = [&](auto* base, const DenseSteps& steps, int64_t r) {
    return base + net * steps.net + (first + r) * steps.row;
  };
  const float* start = a.start ? a.start + net * a.start_steps.net : nullptr;
  const float *gain = a.gain + net * a.gain_steps.net, *shift = a.shift + net * a.gain_steps.net;
  RowPanel z(F), factor(F), xhat(F), rstd(1), dy(F);
  for (int64_t r = 0; r < count; ++r)
    for (int64_t f = 0; f < F; ++f) {
      z(f, r) = row_number(row(static_cast<const T*>(a.x), a.from, r) + f) + (start ? start[f] : 0);
      dy(f, r) = row_number(row(static_cast<const T*>(g.dy), g.from, r) + f);
      if (a.uniform)
        factor(f, r) = dropout_factor(a.uniform[(net * a.rows + first + r) * F + f], a.share);
    }
  const float* factors = a.uniform ? factor.get() : nullptr;
  dense_panel_end_cpu({.end = a.end,
                       .out = F,
                       .gain = gain,
                       .shift = shift,
                       .factor = factors,
                       .z = z.get(),
                       .xhat = xhat.get(),
                       .rstd = rstd.get(),
                       .stride = kEndGradRows,
                       .rows = count});
  if (part) std::fill_n(part, 3 * F, 0.f);
  dense_end_grad_cpu({.end = a.end,
                      .out = F,
                      .gain = gain,
                      .shift = shift,
                      .y = z.get(),
                      .xhat = xhat.get(),
                      .rstd = rstd.get(),
                      .factor = factors,
                      .dy = dy.get(),
                      .d_gain = part ? part + F : nullptr,
                      .d_shift = part ? part + 2 * F : nullptr,
                      .stride = kEndGradRows});
  for (int64_t r = 0; r < count; ++r)
    for (int64_t f = 0; f < F; ++f) {
      put_row_number(dy(f, r), row(static_cast<T*>(g.dx), g.to, r) + f);
      if (part) part[f] += dy(f, r);
    }
}

}  // namespace

void dense_end_rows_grad_cpu(const DenseEndRowsGrad& g) {
  const DenseEndRows& a = g.of;
  for (int64_t p = 0; p < end_grad_parts(a.rows); ++p)
    for (int64_t net = 0; net < a.nets; ++net) {
      const int64_t first = p * kEndGradRows, count = std::min(kEndGradRows, a.rows - first);
      float* part = g.parts ? g.parts + (p * a.nets + net) * 3 * a.features : nullptr;
      if (a.bf16) end_rows_back<uint16_t>(g, net, first, count, part);
      else end_rows_back<float>(g, net, first, count, part);
    }
}

void dense_end_fold_cpu(const DenseEndFold& a) {
  const int64_t columns = a.nets * 3 * a.features;
  for (int64_t c = 0; c < columns; ++c) {
    float sum = 0;
    for (int64_t p = 0; p < a.count; ++p) sum += a.parts[p * columns + c];
    *folded_place(a, c) += sum;
  }
}

}  // namespace maglev
