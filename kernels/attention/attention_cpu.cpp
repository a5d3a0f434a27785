#include "kernels/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd/math-inl.h"
#include "base/simd/order-inl.h"
#include "base/simd/run-inl.h"
#include "base/simd/sum-inl.h"
#include "base/trace/span.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// sums in parts, so that they do not depend on a vector's width
using AttentionSum = PartedSum<float, 16>;
using AttentionTag = AttentionSum::D;

template <class T>
struct AttentionRows {
  T* first;
  int64_t row;
  HWY_INLINE T* operator[](int64_t i) const { return first + i * row; }
};
using AttentionIn = AttentionRows<const float>;
using AttentionOut = AttentionRows<float>;

// to[j] = <q, k_j> for j < kCount, of no more than `keys` rows: behind them the last again
template <int kCount>
HWY_INLINE void add_products_with(const float* q, AttentionIn k, int64_t keys, int64_t width,
                                  float* to) {
  const AttentionTag d;
  AttentionSum sum[kCount];
  const float* rows[kCount];
#pragma GCC unroll 16
  for (int j = 0; j < kCount; ++j) rows[j] = k[j < keys ? j : keys - 1];
  const auto add = [&](int64_t i, int vector, auto part) HWY_ATTR {
    const auto x = part.load(q + i);
#pragma GCC unroll 16
    for (int j = 0; j < kCount; ++j) {
      auto& of = sum[j].of(vector);
      of = hn::MulAdd(x, part.load(rows[j] + i), of);
    }
  };
  int64_t i = 0;
  for (; i + 16 <= width; i += 16)
#pragma GCC unroll 16
    for (int v = 0; v < AttentionSum::kVectors; ++v)
      add(i + v * AttentionSum::kLanes, v, WholeVector<AttentionTag>{});
  int v = 0;
  for_each_vector(d, width - i,
                  [&](int64_t rest, auto part) HWY_ATTR { add(i + rest, v++, part); });
  std::fill_n(to, kCount, 0.f);
  add_folded(sum, to);
}

// table(i, j) = <q_i, k_j>; numbers behind a row's keys are finite, up to `room`
HWY_INLINE void products_with(AttentionIn q, int64_t queries, AttentionIn k, int64_t keys,
                              int64_t width, int64_t room, AttentionOut table) {
  for (int64_t i = 0; i < queries; ++i) {
    int64_t j = 0;
    if (keys == 1) add_products_with<1>(q[i], k, 1, width, table[i]), j = 1;
    for (; j < keys; j += 4)
      add_products_with<4>(q[i], {k[j], k.row}, keys - j, width, table[i] + j);
    std::fill(table[i] + j, table[i] + room, 0.f);
  }
}

// x becomes the softmax of scale x over `keys`, 0 behind them up to `room`
HWY_INLINE void softmax_of(float* x, int64_t keys, int64_t room, float scale) {
  const AttentionTag d;
  const auto nothing = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto most = nothing;
  for (int64_t i = 0; i < room; i += AttentionSum::kLanes) {
    const auto there = hn::FirstN(d, size_t(std::max<int64_t>(0, keys - i)));
    const auto score = hn::IfThenElse(there, hn::LoadU(d, x + i), nothing);
    hn::StoreU(score, d, x + i);
    most = larger_of(most, score);
  }
  const auto largest = hn::MaxOfLanes(d, most), by = hn::Set(d, scale);
  AttentionSum sum;
  for (int64_t i = 0; i < room; i += 16)
    for (int v = 0; v < AttentionSum::kVectors; ++v) {
      float* place = x + i + v * AttentionSum::kLanes;
      const auto e = exp_vector(d, by * (hn::LoadU(d, place) - largest));
      hn::StoreU(e, d, place);
      sum.of(v) = sum.of(v) + e;
    }
  const auto inverse = hn::Set(d, 1.f / sum.fold());
  for (int64_t i = 0; i < room; i += AttentionSum::kLanes)
    hn::StoreU(hn::LoadU(d, x + i) * inverse, d, x + i);
}

// back through it: dx, what arrives at the weights, becomes what arrives at x
HWY_INLINE void softmax_back(const float* weights, float* dx, int64_t room, float scale) {
  const AttentionTag d;
  AttentionSum sum;
  for (int64_t i = 0; i < room; i += 16)
    for (int v = 0; v < AttentionSum::kVectors; ++v) {
      const int64_t place = i + v * AttentionSum::kLanes;
      sum.of(v) = hn::MulAdd(hn::LoadU(d, weights + place), hn::LoadU(d, dx + place), sum.of(v));
    }
  const auto mean = hn::Set(d, sum.fold()), by = hn::Set(d, scale);
  for (int64_t i = 0; i < room; i += AttentionSum::kLanes)
    hn::StoreU(by * hn::LoadU(d, weights + i) * (hn::LoadU(d, dx + i) - mean), d, dx + i);
}

// to_i .. to_(i + kCount - 1) = sums over j of table(i, j) x_j, added where `add`
template <int kCount, bool kTurned, class Part>
HWY_INLINE void mix_rows(AttentionIn table, int64_t count, AttentionIn x, AttentionOut to,
                         int64_t i, int64_t k, Part part, bool add) {
  const AttentionTag d;
  hn::Vec<AttentionTag> sum[kCount];
#pragma GCC unroll 16
  for (int c = 0; c < kCount; ++c) sum[c] = add ? part.load(to[i + c] + k) : hn::Zero(d);
  for (int64_t j = 0; j < count; ++j) {
    const auto of = part.load(x[j] + k);
#pragma GCC unroll 16
    for (int c = 0; c < kCount; ++c)
      sum[c] = hn::MulAdd(hn::Set(d, kTurned ? table[j][i + c] : table[i + c][j]), of, sum[c]);
  }
#pragma GCC unroll 16
  for (int c = 0; c < kCount; ++c) part.store(sum[c], to[i + c] + k);
}

// the same for all `rows`; turned: table(j, i)
template <bool kTurned>
HWY_INLINE void mix(AttentionIn table, int64_t rows, int64_t count, AttentionIn x, int64_t width,
                    AttentionOut to, bool add = false) {
  for_each_vector(AttentionTag(), width, [&](int64_t k, auto part) HWY_ATTR {
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4) mix_rows<4, kTurned>(table, count, x, to, i, k, part, add);
    for (; i + 2 <= rows; i += 2) mix_rows<2, kTurned>(table, count, x, to, i, k, part, add);
    if (i < rows) mix_rows<1, kTurned>(table, count, x, to, i, k, part, add);
  });
}

// where sequence s has its queries and keys
struct AttentionPlace {
  int64_t query, queries, key, keys;
  HWY_INLINE AttentionPlace(const AttentionArgs& a, int64_t s)
      : key(a.offsets[s]), keys(a.offsets[s + 1] - a.offsets[s]) {
    query = a.pooled ? s : key, queries = a.pooled ? 1 : keys;
  }
};

void attention(const AttentionArgs& a) {
  const float scale = 1.f / std::sqrt(float(a.width));
  const int64_t all = a.heads * a.width, most = attention_weights(a.most);
  for (int64_t s = 0; s < a.sequences; ++s) {
    const AttentionPlace here(a, s);
    const int64_t room = attention_weights(here.keys);
    for (int64_t h = 0; h < a.heads; ++h) {
      const int64_t head = h * a.width;
      const AttentionIn q{a.q + (a.pooled ? 0 : here.query * a.q_row) + head, a.q_row};
      const AttentionIn k{a.k + here.key * a.kv_row + head, a.kv_row};
      const AttentionIn v{a.v + here.key * a.kv_row + head, a.kv_row};
      const AttentionOut weights{a.weights + (here.query * a.heads + h) * most, a.heads * most};
      products_with(q, here.queries, k, here.keys, a.width, most, weights);
      for (int64_t i = 0; i < here.queries; ++i) softmax_of(weights[i], here.keys, room, scale);
      mix<false>({weights.first, weights.row}, here.queries, here.keys, v, a.width,
                 {a.out + here.query * all + head, all});
    }
  }
}

void attention_back(const AttentionBack& back) {
  const AttentionArgs& a = back.of;
  const float scale = 1.f / std::sqrt(float(a.width));
  const int64_t all = a.heads * a.width, most = attention_weights(a.most);
  const bool one = back.d_k == back.d_v;
  HWY_ALIGN float of_scores[kMostAttended * kMostAttended];
  const AttentionOut d_scores{of_scores, kMostAttended};
  const AttentionIn scores{of_scores, kMostAttended};
  for (int64_t s = 0; s < a.sequences; ++s) {
    const AttentionPlace here(a, s);
    const int64_t room = attention_weights(here.keys);
    for (int64_t h = 0; h < a.heads; ++h) {
      const int64_t head = h * a.width, key = here.key * a.kv_row + head;
      const AttentionIn q{a.q + (a.pooled ? 0 : here.query * a.q_row) + head, a.q_row};
      const AttentionIn k{a.k + key, a.kv_row}, v{a.v + key, a.kv_row};
      const AttentionIn d_out{back.d_out + here.query * all + head, all};
      const AttentionIn weights{a.weights + (here.query * a.heads + h) * most, a.heads * most};
      products_with(d_out, here.queries, v, here.keys, a.width, room, d_scores);
      for (int64_t i = 0; i < here.queries; ++i) softmax_back(weights[i], d_scores[i], room, scale);
      mix<true>(weights, here.keys, here.queries, d_out, a.width, {back.d_v + key, a.kv_row});
      mix<true>(scores, here.keys, here.queries, q, a.width, {back.d_k + key, a.kv_row}, one);
      mix<false>(scores, here.queries, here.keys, k, a.width,
                 {back.d_q + here.query * back.d_q_row + head, back.d_q_row});
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(attention);
HWY_EXPORT(attention_back);

void attention_cpu(const AttentionArgs& args) {
  const auto span = trace::kernel("attention");
  HWY_DYNAMIC_DISPATCH(attention)(args);
}
void attention_back_cpu(const AttentionBack& args) {
  const auto span = trace::kernel("attention_back");
  HWY_DYNAMIC_DISPATCH(attention_back)(args);
}

}  // namespace maglev
#endif
