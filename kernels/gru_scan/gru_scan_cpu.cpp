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

}  // namespace

void gru_scan_cpu(const GruScanArgs& s) {
  const int64_t B = s.B, H = s.H, G = 3 * H;
  keep_rows(s.h, s.keep, B, H, s.before);
  std::copy_n(s.products, s.L * B * G, s.gates);
  for (int64_t l = 0; l < s.L; ++l) {
    const float* before = s.before + l * B * H;
    float* gates = s.gates + l * B * G;
    product_cpu({.a = before,
                 .a_row = H,
                 .a_column = 1,
                 .b = s.weight_t,
                 .b_row = s.weight_row,
                 .c = gates,
                 .c_row = G,
                 .rows = B,
                 .columns = G,
                 .depth = H,
                 .add = true});
    GruArgs step{.rows = B,
                 .blocks = 1,
                 .width = H,
                 .gates = gates,
                 .gates_block = 0,
                 .gates_row = G,
                 .bias = s.bias,
                 .h = before,
                 .h_row = H,
                 .next = s.behind + l * B * H,
                 .next_row = H};
    if (l + 1 < s.L)
      step.carried = {.data = s.before + (l + 1) * B * H, .row = H, .keep = s.keep + (l + 1) * B};
    gru_cpu(step);
  }
}

void gru_scan_back_cpu(const GruScanBack& s) {
  const int64_t B = s.B, H = s.H, G = 3 * H;
  for (int64_t l = s.L; l-- > 0;) {
    float* d_gates = s.d_gates + l * B * G;
    GruBack step{.forward = {.rows = B,
                             .blocks = 1,
                             .width = H,
                             .gates = s.gates + l * B * G,
                             .gates_block = 0,
                             .gates_row = G,
                             .bias = s.bias,
                             .h = s.before + l * B * H,
                             .h_row = H,
                             .next = nullptr,
                             .next_row = 0},
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
    product_cpu({.a = d_gates,
                 .a_row = G,
                 .a_column = 1,
                 .b = s.weight,
                 .b_row = s.weight_row,
                 .c = s.d_h,
                 .c_row = H,
                 .rows = B,
                 .columns = H,
                 .depth = G,
                 .add = true});
  }
  keep_rows(s.d_h, s.keep, B, H, s.d_h);
}

}  // namespace maglev
