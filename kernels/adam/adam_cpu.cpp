#include "kernels/adam/adam.h"

#include <algorithm>

#include <hwy/cache_control.h>

#include "base/simd/subnormals.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/adam/adam_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// squares are summed in this many parts, element i of a group in part i % kParts, whatever a
// vector's width, and go over to f64 every kAdamBlock elements
constexpr int64_t kParts = 32;

// gradients of so many parameters come from far: they are fetched so many ahead, for the processor's
// own fetching stays near where only one stream is read
constexpr int64_t kFar = 1 << 18, kAhead = 1024;

// what of group g lies in a chunk
struct Range {
  int64_t begin, end;
};
Range part_of_chunk(const AdamArgs& args, int64_t g, int64_t chunk) {
  const AdamGroup& group = args.groups[g];
  const int64_t size = adam_chunk(args.P);
  return {std::max(group.begin, chunk * size),
          std::min({group.begin + group.count, (chunk + 1) * size, args.P})};
}

// a vector, or the last `count` elements of a range
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const float* x, int64_t count) {
  if (count >= int64_t(hn::Lanes(d))) return hn::LoadU(d, x);
  HWY_ALIGN float rest[hn::MaxLanes(D())] = {};
  std::copy_n(x, count, rest);
  return hn::Load(d, rest);
}

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> v, float* x, int64_t count) {
  if (count >= int64_t(hn::Lanes(d))) return hn::StoreU(v, d, x);
  HWY_ALIGN float rest[hn::MaxLanes(D())];
  hn::Store(v, d, rest);
  std::copy_n(rest, count, x);
}

double sum_lanes(const AdamArgs& args, Range range) {
  const hn::ScalableTag<float> d;
  const int64_t width = int64_t(hn::Lanes(d));
  // without a loss scale a multiplication by 1, which changes no bit
  const auto unscale = hn::Set(d, args.unscale ? *args.unscale : 1.f);
  const bool changed = args.lanes > 1 || args.unscale;
  const bool far = args.P >= kFar;
  double squares = 0;
  for (int64_t block = range.begin; block < range.end; block += kAdamBlock) {
    HWY_ALIGN float parts[kParts] = {};
    const int64_t end = std::min(block + kAdamBlock, range.end);
    for (int64_t i = block; i < end; i += width) {
      const int64_t count = end - i;
      if (far) hwy::Prefetch(args.grad + i + kAhead);
      auto sum = load(d, args.grad + i, count);
      for (int64_t l = 1; l < args.lanes; ++l)
        sum = sum + load(d, args.grad + l * args.lane_stride + i, count);
      sum = sum * unscale;
      if (changed) store(d, sum, args.grad + i, count);
      float* part = parts + (i - block) % kParts;
      hn::Store(hn::MulAdd(sum, sum, hn::Load(d, part)), d, part);
    }
    for (float part : parts) squares += double(part);
  }
  return squares;
}

void reduce_chunk(const AdamArgs& args, int64_t chunk) {
  for (int64_t g = 0; g < args.group_count; ++g)
    args.partial[chunk * args.group_count + g] = sum_lanes(args, part_of_chunk(args, g, chunk));
}

void step_range(const AdamArgs& args, Range range, float factor, AdamRate rate) {
  const hn::ScalableTag<float> d;
  const int64_t width = int64_t(hn::Lanes(d));
  const AdamStep& s = *args.step;
  const auto clip = hn::Set(d, factor), keep = hn::Set(d, rate.keep);
  const auto beta2 = hn::Set(d, float(args.beta2)), eps = hn::Set(d, float(args.eps));
  const auto rest1 = hn::Set(d, float(1 - args.beta1)), rest2 = hn::Set(d, float(1 - args.beta2));
  const auto step_size = hn::Set(d, rate.step_size), root_bias2 = hn::Set(d, s.root_bias2);
  for (int64_t i = range.begin; i < range.end; i += width) {
    const int64_t count = range.end - i;
    const auto grad = load(d, args.grad + i, count) * clip;
    auto first = load(d, args.first + i, count), second = load(d, args.second + i, count);
    first = hn::MulAdd(rest1, grad - first, first);
    second = hn::MulAdd(second, beta2, rest2 * grad * grad);
    const auto denominator = hn::Sqrt(second) / root_bias2 + eps;
    const auto data = load(d, args.data + i, count) * keep;
    store(d, grad, args.grad + i, count);
    store(d, first, args.first + i, count);
    store(d, second, args.second + i, count);
    store(d, hn::NegMulAdd(step_size, first / denominator, data), args.data + i, count);
  }
}

void step_chunk(const AdamArgs& args, int64_t chunk) {
  if (args.step->apply == 0) return;
  for (int64_t g = 0; g < args.group_count; ++g)
    step_range(args, part_of_chunk(args, g, chunk), args.factor[g], adam_rate(args, *args.step, g));
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(reduce_chunk);
HWY_EXPORT(step_chunk);

void adam_reduce_cpu(const AdamArgs& args, int64_t chunk) {
  const WithoutSubnormals flushed;
  HWY_DYNAMIC_DISPATCH(reduce_chunk)(args, chunk);
}
void adam_step_cpu(const AdamArgs& args, int64_t chunk) {
  const WithoutSubnormals flushed;
  HWY_DYNAMIC_DISPATCH(step_chunk)(args, chunk);
}

}  // namespace maglev
#endif
