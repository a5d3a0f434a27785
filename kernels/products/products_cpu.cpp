#include "kernels/products/products.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/products/products_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {

// columns of B that are multiplied at once: those of a tile's widest row
constexpr int64_t kStrip = 64;
// rows of A from which on a copy of B's strip in the first cache costs less than it gives
constexpr int64_t kRowsToPack = 48;
constexpr int64_t kAligned = 16;

// Rows of B that tiles can read as they lie: vectors are whole, and begin where loads want them.
bool reads_in_place(const RowProduct& p) {
  const bool aligned = reinterpret_cast<uintptr_t>(p.b) % (kAligned * sizeof(float)) == 0;
  return aligned && p.b_row % kAligned == 0 && (p.rows < kRowsToPack || p.b_row == kStrip);
}

// a strip of B's rows one behind another, zeros up to a whole vector
void pack_strip(const float* b, int64_t b_row, int64_t columns, int64_t depth, float* packed) {
  const int64_t padded = (columns + kAligned - 1) / kAligned * kAligned;
  for (int64_t k = 0; k < depth; ++k, b += b_row, packed += kStrip) {
    std::memcpy(packed, b, size_t(columns) * sizeof(float));
    // the next strip comes from far while this one is multiplied: 169 GFLOP/s of a weight's
    // gradient over 7,680 rows, 154 without
    for (int64_t ahead = kStrip; ahead < 2 * kStrip; ahead += kAligned) hwy::Prefetch(b + ahead);
    std::fill(packed + columns, packed + padded, 0.f);
  }
}

void product_of(const RowProduct& p) {
  HWY_ALIGN float packed[kProductDepth * kStrip];
  const bool in_place = reads_in_place(p);
  for (int64_t k = 0; k < p.depth; k += kProductDepth)
    for (int64_t c = 0; c < p.columns; c += kStrip) {
      const int64_t depth = std::min(kProductDepth, p.depth - k);
      const int64_t columns = std::min(kStrip, p.columns - c);
      const float* b = p.b + k * p.b_row + c;
      if (!in_place) pack_strip(b, p.b_row, columns, depth, packed);
      const Product product{.a = p.a + k * p.a_column,
                            .a_row = p.a_row,
                            .a_column = p.a_column,
                            .b = in_place ? b : packed,
                            .b_row = in_place ? p.b_row : kStrip,
                            .rows = p.rows,
                            .columns = columns,
                            .depth = depth};
      if (p.add || k > 0) multiply(product, WriteRows<true>{p.c + c, p.c_row, columns});
      else multiply(product, WriteRows<false>{p.c + c, p.c_row, columns});
    }
}

void products(const RowProduct& args) {
  RowProduct p = args;
  for (int64_t i = 0; i < args.batch; ++i) {
    product_of(p);
    p.a += p.a_batch, p.b += p.b_batch, p.c += p.c_batch;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(products);

void product_cpu(const RowProduct& args) { HWY_DYNAMIC_DISPATCH(products)(args); }

}  // namespace maglev
#endif
