#include "base/simd/orthonormal.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/simd/orthonormal.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd/sum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// rows that are taken out of all later ones at once, so that those pass through the cache seldom
constexpr int64_t kRowBlock = 8;

double dot(const double* a, const double* b, int64_t count) {
  PartedSum<double, int(kOrthonormalStep)> sum;
  sum.add_products(a, b, count);
  return sum.fold();
}

// row -= (row . unit) unit
void take_out(const double* unit, double* row, int64_t count) {
  const hn::ScalableTag<double> d;
  const auto share = hn::Set(d, dot(unit, row, count));
  for (int64_t i = 0; i < count; i += int64_t(hn::Lanes(d)))
    hn::Store(hn::NegMulAdd(share, hn::Load(d, unit + i), hn::Load(d, row + i)), d, row + i);
}

void normalise(double* row, int64_t count) {
  const double scale = 1 / std::sqrt(dot(row, row, count));
  for (int64_t i = 0; i < count; ++i) row[i] *= scale;
}

void orthonormal_rows(double* rows, int64_t count, int64_t stride) {
  for (int64_t first = 0; first < count; first += kRowBlock) {
    const int64_t last = std::min(first + kRowBlock, count);
    for (int64_t k = first; k < last; ++k) {
      for (int64_t u = first; u < k; ++u) take_out(rows + u * stride, rows + k * stride, stride);
      normalise(rows + k * stride, stride);
    }
    for (int64_t k = last; k < count; ++k)
      for (int64_t u = first; u < last; ++u) take_out(rows + u * stride, rows + k * stride, stride);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(orthonormal_rows);

void orthonormalise(double* rows, int64_t count, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(orthonormal_rows)(rows, count, stride);
}

}  // namespace maglev
#endif
