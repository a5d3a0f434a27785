#include "kernels/normalize/normalize.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/normalize/normalize_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F64 = hn::ScalableTag<double>;
using F32Half = hn::Rebind<float, F64>;

void normalize_run(const float* x, const float* mean, const float* rstd, float clip, int64_t count,
                   float* out) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  const auto high = hn::Set(d, clip), low = hn::Set(d, -clip);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    auto v = (hn::LoadU(d, x + i) - hn::LoadU(d, mean + i)) * hn::LoadU(d, rstd + i);
    // by comparing, so that a NaN stays one
    v = hn::IfThenElse(v < low, low, hn::IfThenElse(v > high, high, v));
    hn::StoreU(v, d, out + i);
  }
  for (; i < count; ++i) out[i] = clamp_to((x[i] - mean[i]) * rstd[i], clip);
}

void normalize_rows(const NormalizeArgs& a) {
  // columns at once: what they are normalised by stays in the first cache
  constexpr int64_t kColumns = 1024;
  float mean[kColumns], rstd[kColumns];
  const int64_t rows = rows_at_once(a.D);
  for (int64_t begin = 0; begin < a.D; begin += kColumns) {
    const int64_t columns = std::min(kColumns, a.D - begin);
    for (int64_t c = 0; c < columns; ++c) {
      mean[c] = a.mean[begin + c];
      rstd[c] = 1.f / std::sqrt(a.var[begin + c] + 1e-8f);
    }
    // the same columns once more for every further row taken at once
    for (int64_t c = columns; c < rows * columns; ++c)
      mean[c] = mean[c - columns], rstd[c] = rstd[c - columns];
    for (int64_t m = 0; m < a.M; m += rows) {
      const int64_t at = m * a.D + begin;
      normalize_run(a.x + at, mean, rstd, a.clip, std::min(rows, a.M - m) * columns, a.out + at);
    }
  }
}

// first[i] += weight[i] * off, second[i] += weight[i] * off * off with off = x[i] - shift[i]; a
// null weight is 1
void add_run(const float* x, const double* weight, const double* shift, int64_t count,
             double* first, double* second) {
  const F64 d;
  const F32Half half;
  const int64_t lanes = int64_t(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto off = hn::PromoteTo(d, hn::LoadU(half, x + i)) - hn::LoadU(d, shift + i);
    const auto weighted = weight ? hn::LoadU(d, weight + i) * off : off;
    hn::StoreU(hn::LoadU(d, first + i) + weighted, d, first + i);
    hn::StoreU(hn::LoadU(d, second + i) + weighted * off, d, second + i);
  }
  for (; i < count; ++i) {
    const double off = double(x[i]) - shift[i], weighted = weight ? weight[i] * off : off;
    first[i] += weighted;
    second[i] += weighted * off;
  }
}

void absorb_rows(const AbsorbArgs& a) {
  if (a.M == 0) return;
  const int64_t rows = rows_at_once(a.D), width = rows * a.D;
  double *shift = a.scratch, *first = shift + width, *second = first + width;
  double* weight = second + width;
  // around the mean so far; of what was never seen, around the first row
  const bool seen = *a.moments.count > 0;
  for (int64_t i = 0; i < width; ++i) {
    shift[i] = seen ? a.moments.mean[i % a.D] : a.x[i % a.D];
    first[i] = second[i] = 0;
  }
  double total = a.weight ? 0 : double(a.M);
  for (int64_t m = 0; m < a.M; m += rows) {
    const int64_t count = std::min(rows, a.M - m);
    // a row's weight, once for each of its columns
    if (a.weight)
      for (int64_t r = 0; r < count; ++r) {
        total += a.weight[m + r];
        std::fill_n(weight + r * a.D, a.D, double(a.weight[m + r]));
      }
    add_run(a.x + m * a.D, a.weight ? weight : nullptr, shift, count * a.D, first, second);
  }
  // rows that were taken at once fold into one, then into the moments
  for (int64_t c = 0; c < a.D; ++c) {
    ShiftedSums sums{.weight = total, .first = 0, .second = 0};
    for (int64_t i = c; i < width; i += a.D) sums.first += first[i], sums.second += second[i];
    merge(sums, shift[c], *a.moments.count, a.moments.mean[c], a.moments.var[c]);
  }
  *a.moments.count += total;
}

void absorb_returns(const ReturnScanArgs& a) {
  if (a.T == 0 || a.N == 0) return;
  const F64 d;
  const F32Half half;
  const hn::Rebind<int32_t, F64> integers;
  const hn::Rebind<uint8_t, F64> bytes;
  const int64_t lanes = int64_t(hn::Lanes(d));
  double *first = a.scratch, *second = first + a.N, *total = second + a.N;
  std::fill_n(a.scratch, 3 * a.N, 0.);
  // around the mean so far; of what was never seen, around the first return
  const double shift =
      *a.moments.count > 0 ? *a.moments.mean : double(a.running[0] * a.gamma + a.reward[0]);
  const auto v_shift = hn::Set(d, shift);
  const auto v_gamma = hn::Set(half, a.gamma), one = hn::Set(half, 1.f);
  for (int64_t t = 0; t < a.T; ++t) {
    const float *reward = a.reward + t * a.N, *weight = a.weight + t * a.N;
    const uint8_t* done = a.done + t * a.N;
    int64_t n = 0;
    for (; n + lanes <= a.N; n += lanes) {
      // the return goes on, is taken in, and ends with its episode
      const auto run = hn::LoadU(half, a.running + n) * v_gamma + hn::LoadU(half, reward + n);
      const auto w = hn::PromoteTo(d, hn::LoadU(half, weight + n));
      const auto off = hn::PromoteTo(d, run) - v_shift, weighted = w * off;
      hn::StoreU(hn::LoadU(d, total + n) + w, d, total + n);
      hn::StoreU(hn::LoadU(d, first + n) + weighted, d, first + n);
      hn::StoreU(hn::LoadU(d, second + n) + weighted * off, d, second + n);
      const auto ends = hn::ConvertTo(half, hn::PromoteTo(integers, hn::LoadU(bytes, done + n)));
      hn::StoreU(run * (one - ends), half, a.running + n);
    }
    for (; n < a.N; ++n) {
      const float run = a.running[n] * a.gamma + reward[n];
      const double off = double(run) - shift, weighted = double(weight[n]) * off;
      total[n] += weight[n];
      first[n] += weighted;
      second[n] += weighted * off;
      a.running[n] = run * (1.f - float(done[n]));
    }
  }
  // rows in order, then into the moments
  ShiftedSums sums{};
  for (int64_t n = 0; n < a.N; ++n)
    sums.weight += total[n], sums.first += first[n], sums.second += second[n];
  merge(sums, shift, *a.moments.count, *a.moments.mean, *a.moments.var);
  *a.moments.count += sums.weight;
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(normalize_rows);
HWY_EXPORT(absorb_rows);
HWY_EXPORT(absorb_returns);

void normalize_cpu(const NormalizeArgs& args) { HWY_DYNAMIC_DISPATCH(normalize_rows)(args); }
void absorb_moments_cpu(const AbsorbArgs& args) { HWY_DYNAMIC_DISPATCH(absorb_rows)(args); }
void absorb_returns_cpu(const ReturnScanArgs& args) { HWY_DYNAMIC_DISPATCH(absorb_returns)(args); }

// a device's: a number and sums of each part
int64_t absorb_scratch(int64_t D) {
  return std::max(4 * rows_at_once(D) * D, 1 + 3 * D * most_absorb_parts(D));
}
// a device's: two numbers and sums of each block
int64_t return_scan_scratch(int64_t N) { return 3 * N + 2; }

}  // namespace maglev
#endif
