#include "kernels/policy/policy.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/policy/policy_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/policy/policy-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 32 x 32 -> 64 bits of all lanes
template <class D, class V = hn::Vec<D>>
HWY_INLINE void multiply_wide(D d, V a, uint32_t factor, V& high, V& low) {
#if HWY_TARGET == HWY_SCALAR
  const uint64_t product = uint64_t(hn::GetLane(a)) * factor;
  high = hn::Set(d, uint32_t(product >> 32)), low = hn::Set(d, uint32_t(product));
#else
  const hn::RepartitionToWide<D> wide;
  const V b = hn::Set(d, factor);
  // products of even lanes, then of odd ones moved there, and halves put back in their lanes
  const auto even = hn::MulEven(a, b);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))), b);
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
#endif
}

// lower and upper halves of the streams of rows [at, at + lanes)
template <class D, class V = hn::Vec<D>>
HWY_INLINE void row_streams(D d, const SampleArgs& args, int64_t at, V& low, V& high) {
  if (!args.index) {
    const uint64_t stream = stream_id(args.purpose, uint64_t(args.first_row + at));
    const V first = hn::Set(d, uint32_t(stream));
    low = first + hn::Iota(d, 0u), high = hn::Set(d, uint32_t(stream >> 32));
    high = high - hn::VecFromMask(d, hn::Lt(low, first));  // the carry
    return;
  }
  const size_t lanes = hn::Lanes(d);
  HWY_ALIGN uint32_t lows[hn::MaxLanes(D())], highs[hn::MaxLanes(D())];
  for (size_t l = 0; l < lanes; ++l) {
    // lanes behind the last row draw for nobody
    const int64_t row = std::min(at + int64_t(l), args.policy.rows - 1);
    const uint64_t stream = stream_id(args.purpose, uint64_t(args.index[row]));
    lows[l] = uint32_t(stream), highs[l] = uint32_t(stream >> 32);
  }
  low = hn::Load(d, lows), high = hn::Load(d, highs);
}

// philox() of base/core/philox.h for one row a lane: block `block` of rows [at, at + lanes)
template <class D>
HWY_INLINE void philox_rows(D d, const SampleArgs& args, int64_t at, int64_t block,
                            uint32_t* words) {
  using V = hn::Vec<D>;
  // words 0 and 1 of the counter: step and block; words 2 and 3: the row's stream
  const uint64_t counter =
      (uint64_t(args.step + (args.base ? *args.base : 0)) << 16) | uint64_t(block);
  uint32_t k0 = uint32_t(args.seed), k1 = uint32_t(args.seed >> 32);
  V c0 = hn::Set(d, uint32_t(counter)), c1 = hn::Set(d, uint32_t(counter >> 32));
  V c2 = hn::Zero(d), c3 = c2;
  row_streams(d, args, at, c2, c3);
  // Philox 4x32 with ten rounds
  for (int round = 0; round < 10; ++round) {
    V high0, low0, high1, low1;
    multiply_wide(d, c0, 0xD2511F53u, high0, low0);
    multiply_wide(d, c2, 0xCD9E8D57u, high1, low1);
    c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, k0));
    c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, k1));
    c1 = low1, c3 = low0;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  const size_t lanes = hn::Lanes(d);
  hn::Store(c0, d, words), hn::Store(c1, d, words + lanes);
  hn::Store(c2, d, words + 2 * lanes), hn::Store(c3, d, words + 3 * lanes);
}

// open_uniform() of kernels/philox
template <class D, class V = hn::Vec<D>>
HWY_INLINE V uniform_of(D d, const uint32_t* words) {
  const hn::RebindToUnsigned<D> unsigned_integers;
  const hn::RebindToSigned<D> integers;
  const auto bits = hn::ShiftRight<9>(hn::Load(unsigned_integers, words));
  return (hn::ConvertTo(d, hn::BitCast(integers, bits)) + hn::Set(d, 0.5f)) *
         hn::Set(d, 1.f / 8388608.f);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V sample_heads(D d, const SampleArgs& args, int64_t at) {
  const hn::RebindToSigned<D> integers;
  const hn::RebindToUnsigned<D> unsigned_integers;
  const PolicyPanel& p = args.policy;
  const size_t lanes = hn::Lanes(d);
  const int64_t rows = std::min(int64_t(lanes), p.rows - at);
  HWY_ALIGN uint32_t words[4 * hn::MaxLanes(D())];
  HWY_ALIGN int32_t action[hn::MaxLanes(D())];
  const V temperature = hn::Set(d, args.temperature);
  V log_prob = hn::Zero(d);
  for (int64_t h = 0, begin = 0; h < p.head_count; begin += p.heads[h++]) {
    // the largest of logits, or of logits plus Gumbel noise
    V best = hn::Zero(d), chosen_logit = hn::Zero(d);
    auto chosen = hn::Zero(integers);
    for (int64_t k = 0; k < p.heads[h]; ++k) {
      const int64_t column = begin + k;
      const V logit = masked_logit(d, p, nullptr, column, at);
      V score = logit;
      if (!args.mean) {
        // a block is four numbers: it serves four categories, across heads too
        if (column % 4 == 0) philox_rows(unsigned_integers, args, at, column / 4, words);
        const V uniform = uniform_of(d, words + size_t(column % 4) * lanes);
        score = hn::NegMulAdd(temperature, log_vector(d, hn::Neg(log_vector(d, uniform))), logit);
      }
      // the first category is better than none
      const auto better = k == 0 ? hn::Eq(best, best) : hn::Gt(score, best);
      best = hn::IfThenElse(better, score, best);
      chosen_logit = hn::IfThenElse(better, logit, chosen_logit);
      chosen =
          hn::IfThenElse(hn::RebindMask(integers, better), hn::Set(integers, int32_t(k)), chosen);
    }
    hn::Store(chosen, integers, action);
    for (int64_t r = 0; r < rows; ++r) args.action_i32[(at + r) * p.dims + h] = action[r];
    if (!args.log_prob) continue;
    // as evaluating given actions does it: equal to the bit
    V largest = log_prob, log_total = log_prob, entropy = log_prob;
    head_softmax(d, p, nullptr, begin, p.heads[h], at, largest, log_total, entropy);
    log_prob = log_prob + ((chosen_logit - largest) - log_total);
  }
  return log_prob;
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V sample_gaussian(D d, const SampleArgs& args, int64_t at) {
  const hn::RebindToUnsigned<D> unsigned_integers;
  const PolicyPanel& p = args.policy;
  const size_t lanes = hn::Lanes(d);
  const int64_t rows = std::min(int64_t(lanes), p.rows - at);
  HWY_ALIGN uint32_t words[4 * hn::MaxLanes(D())];
  HWY_ALIGN float action[hn::MaxLanes(D())];
  const V temperature = hn::Set(d, args.temperature);
  V log_prob = hn::Zero(d), sine = hn::Zero(d), cosine = hn::Zero(d), radius = hn::Zero(d);
  for (int64_t i = 0; i < p.dims; ++i) {
    const V mean = hn::Load(d, p.logits + i * p.stride + at), log_std = hn::Set(d, p.log_std[i]);
    V drawn = mean;
    if (!args.mean) {
      if (i % 2 == 0) {
        // two normals of one block
        philox_rows(unsigned_integers, args, at, i / 2, words);
        radius = hn::Sqrt(hn::Set(d, -2.f) * log_vector(d, uniform_of(d, words)));
        const V angle = hn::Set(d, 6.28318530717958648f) * uniform_of(d, words + lanes);
        sine_cosine(d, angle, sine, cosine);
      }
      drawn = hn::MulAdd(temperature * exp_vector(d, log_std),
                         radius * (i % 2 == 0 ? cosine : sine), mean);
    }
    hn::Store(drawn, d, action);
    for (int64_t r = 0; r < rows; ++r) args.action_f32[(at + r) * p.dims + i] = action[r];
    V z = mean;
    log_prob = gaussian_log_prob(d, drawn, mean, log_std, log_prob, z);
  }
  return log_prob;
}

void sample(const SampleArgs& args) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  HWY_ALIGN float log_prob[hn::MaxLanes(d)];
  for (int64_t at = 0; at < args.policy.rows; at += lanes) {
    const auto v =
        args.policy.head_count > 0 ? sample_heads(d, args, at) : sample_gaussian(d, args, at);
    if (!args.log_prob) continue;
    hn::Store(v, d, log_prob);
    std::copy_n(log_prob, std::min(lanes, args.policy.rows - at), args.log_prob + at);
  }
}

void log_prob_of(const LogProbArgs& args) {
  const hn::ScalableTag<float> d;
  const PolicyPanel& p = args.policy;
  const int64_t lanes = int64_t(hn::Lanes(d));
  HWY_ALIGN float log_prob[hn::MaxLanes(d)], entropy[hn::MaxLanes(d)];
  for (int64_t at = 0; at < p.rows; at += lanes) {
    const int64_t rows = std::min(lanes, p.rows - at);
    auto sum = hn::Zero(d), entropy_sum = hn::Zero(d);
    action_log_prob(d, p, RowActions{args.action_i32, args.action_f32, nullptr}, at, sum,
                    entropy_sum);
    hn::Store(sum, d, log_prob), hn::Store(entropy_sum, d, entropy);
    std::copy_n(log_prob, rows, args.log_prob + at);
    if (args.entropy) std::copy_n(entropy, rows, args.entropy + at);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(sample);
HWY_EXPORT(log_prob_of);

void policy_sample_cpu(const SampleArgs& args) { HWY_DYNAMIC_DISPATCH(sample)(args); }
void policy_log_prob_cpu(const LogProbArgs& args) { HWY_DYNAMIC_DISPATCH(log_prob_of)(args); }

}  // namespace maglev
#endif
