#include "kernels/products/transpose.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/products/transpose_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {

void transpose_matrix(const Transpose& t) {
  // columns by whole vectors, a few rows of the result at a time: they stay in the first cache
  // until they are full; then by fours, then what is left
  const int64_t whole = t.columns / 16 * 16, fours = t.columns / 4 * 4;
  for (int64_t c = 0; c < whole; c += 16)
    transpose(t.from + c, t.rows, t.from_row, 16, t.to + c * t.to_row, t.to_row);
  transpose<4>(t.from + whole, t.rows, t.from_row, fours - whole, t.to + whole * t.to_row,
               t.to_row);
  for (int64_t c = fours; c < t.columns; ++c)
    for (int64_t r = 0; r < t.rows; ++r) t.to[c * t.to_row + r] = t.from[r * t.from_row + c];
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(transpose_matrix);

void transpose_cpu(const Transpose& args) { HWY_DYNAMIC_DISPATCH(transpose_matrix)(args); }

}  // namespace maglev
#endif
