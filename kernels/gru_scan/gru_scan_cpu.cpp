#include "kernels/gru_scan/gru_scan.h"

#include <algorithm>

#include "kernels/gru/gru.h"
#include "kernels/products/products.h"

namespace maglev {
namespace {

// to[r] = from[r] keep[r], a row of H; to may be from
void keep_rows(const float* from, const float* keep, int64_t B, int64_t H, float* to) {
  for (int64_t r = 0; r < B; ++r)
    for (int64_t i = 0; i < H; ++i) to[r * H + i] = from[r * H + i] * keep[r];
}

// c [B][columns] += a [B][depth] times b, whose rows begin b_row apart
void add_product(int64_t B, const float* a, int64_t depth, const float* b, int64_t b_row, float* c,
                 int64_t columns) {
  product_cpu({.a = a,
               .a_row = depth,
               .a_column = 1,
               .b = b,
               .b_row = b_row,
               .c = c,
               .c_row = columns,
               .rows = B,
               .columns = columns,
               .depth = depth,
               .add = true});
}

// one step's unit, which writes nothing yet: [B][3 * H] gates, [B][H] before
GruArgs gru_of(int64_t B, int64_t H, const float* gates, const float* bias, const float* before) {
  return {.rows = B,
          .blocks = 1,
          .width = H,
          .gates = gates,
          .gates_block = 0,
          .gates_row = 3 * H,
          .bias = bias,
          .h = before,
          .h_row = H,
          .next = nullptr,
          .next_row = 0};
}

}  // namespace

void gru_scan_cpu(const GruScanArgs& s) {
  const int64_t B = s.B, H = s.H, G = 3 * H;
  keep_rows(s.h, s.keep, B, H, s.before);
  if (s.gates != s.products) std::copy_n(s.products, s.L * B * G, s.gates);
  for (int64_t l = 0; l < s.L; ++l) {
    const float* before = s.before + l * B * H;
    float* gates = s.gates + l * B * G;
    add_product(B, before, H, s.weight_t, s.weight_row, gates, G);
    GruArgs step = gru_of(B, H, gates, s.bias, before);
    step.next = s.behind + l * B * H, step.next_row = H;
    if (l + 1 < s.L)
      step.carried = {.data = s.before + (l + 1) * B * H, .row = H, .keep = s.keep + (l + 1) * B};
    gru_cpu(step);
  }
}

void gru_scan_back_cpu(const GruScanBack& s) {
  const int64_t B = s.B, H = s.H, G = 3 * H;
  for (int64_t l = s.L; l-- > 0;) {
    float* d_gates = s.d_gates + l * B * G;
    GruBack step{.forward = gru_of(B, H, s.gates + l * B * G, s.bias, s.before + l * B * H),
                 .d_next = s.d_behind + l * B * H,
                 .d_next_row = H,
                 .d_gates = d_gates,
                 .d_gates_block = 0,
                 .d_gates_row = G,
                 .d_h = s.d_h,
                 .d_h_row = H};
    // by the next step's loss and by what was carried on to it
    if (l + 1 < s.L) step.d_carried = {.data = s.d_h, .row = H, .keep = s.keep + (l + 1) * B};
    gru_back_cpu(step);
    add_product(B, d_gates, G, s.weight, s.weight_row, s.d_h, H);
  }
  keep_rows(s.d_h, s.keep, B, H, s.d_h);
}

}  // namespace maglev
