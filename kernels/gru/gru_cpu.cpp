#include "kernels/gru/gru.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gru/gru_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd/math-inl.h"
#include "base/simd/order-inl.h"
#include "base/simd/run-inl.h"
#include "base/simd/tanh-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 1 / (1 + exp(-x)); exp as exp_vector has it, in a third less operations, for beyond 87 the sum is
// the same as at 87
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid_vector(D d, V x) {
  const hn::RebindToSigned<D> integers;
  // Min and Max give their second operand where one is NaN
  const V a = larger_of(hn::Set(d, -87.f), smaller_of(hn::Set(d, 87.f), hn::Neg(x)));
  // adding 1.5 * 2^23 rounds to an integer, and leaves it plus 127 in the low bits: an exponent
  const V magic = hn::Set(d, 12582912.f + 127.f);
  const V biased = hn::MulAdd(a, hn::Set(d, 1.44269504f), magic);
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(integers, biased)));
  const V n = biased - magic;
  V r = hn::NegMulAdd(n, hn::Set(d, kLn2High), a);
  r = hn::NegMulAdd(n, hn::Set(d, kLn2Low), r);
  const V one = hn::Set(d, 1.f);
  return one / hn::MulAdd(power, exp_series(d, r), one);
}

// work(i, part, reset, second gate, candidate, update) for the elements of each block
template <class D, class Work>
HWY_INLINE void for_each_gate(D d, const GruArgs& a, const Work& work) {
  const auto one = hn::Set(d, 1.f);
  const int64_t w = a.width;
  for (int64_t r = 0; r < a.rows; ++r)
    for (int64_t g = 0; g < a.blocks; ++g) {
      const float* gates = a.gates + g * a.gates_block + r * a.gates_row;
      const float* bias = a.bias + g * 3 * w;
      for_each_vector(d, w, [&](int64_t i, auto part) HWY_ATTR {
        const auto gate = [&](int64_t k) HWY_ATTR {
          return part.load(gates + k * w + i) + part.load(bias + k * w + i);
        };
        const auto reset = sigmoid_vector(d, gate(0)), second = gate(1);
        const auto candidate = tanh_vector(d, reset * second);
        work(r, g, i, part, reset, second, candidate, sigmoid_vector(d, gate(2) - one));
      });
    }
}

void gru_rows(const GruArgs& a) {
  const hn::ScalableTag<float> d;
  for_each_gate(
      d, a,
      [&](int64_t r, int64_t g, int64_t i, auto part, auto, auto, auto candidate, auto update)
          HWY_ATTR {
            const auto h = part.load(a.h + r * a.h_row + g * a.width + i);
            const auto next = hn::MulAdd(update, candidate - h, h);
            part.store(next, a.next + r * a.next_row + g * a.width + i);
            if (a.carried.data)
              part.store(next * hn::Set(d, a.carried.keep[r]), a.carried.of(r) + g * a.width + i);
          });
}

void gru_back_rows(const GruBack& b) {
  const hn::ScalableTag<float> d;
  const GruArgs& a = b.forward;
  const auto one = hn::Set(d, 1.f);
  const int64_t w = a.width;
  for_each_gate(d, a,
                [&](int64_t r, int64_t g, int64_t i, auto part, auto reset, auto second,
                    auto candidate, auto update) HWY_ATTR {
                  const int64_t place = g * w + i;
                  const auto h = part.load(a.h + r * a.h_row + place);
                  auto d_next = part.load(b.d_next + r * b.d_next_row + place);
                  if (b.d_carried.data)
                    d_next = hn::MulAdd(part.load(b.d_carried.of(r) + place),
                                        hn::Set(d, b.d_carried.keep[r]), d_next);
                  float* d_gates = b.d_gates + g * b.d_gates_block + r * b.d_gates_row + i;
                  const auto through_tanh =
                      d_next * update * hn::NegMulAdd(candidate, candidate, one);
                  part.store(through_tanh * second * reset * (one - reset), d_gates);
                  part.store(through_tanh * reset, d_gates + w);
                  part.store(d_next * (candidate - h) * update * (one - update), d_gates + 2 * w);
                  part.store(d_next * (one - update), b.d_h + r * b.d_h_row + place);
                });
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(gru_rows);
HWY_EXPORT(gru_back_rows);

void gru_cpu(const GruArgs& args) { HWY_DYNAMIC_DISPATCH(gru_rows)(args); }
void gru_back_cpu(const GruBack& args) { HWY_DYNAMIC_DISPATCH(gru_back_rows)(args); }

}  // namespace maglev
#endif
