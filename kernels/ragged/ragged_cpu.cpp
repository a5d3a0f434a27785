#include "kernels/ragged/ragged.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ragged/ragged_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd/run-inl.h"
#include "base/simd/sum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// sums in parts, so that they do not depend on a vector's width
using RaggedSum = PartedSum<float, 16>;
using RaggedTag = RaggedSum::D;

void ragged_dot(const RaggedDot& a) {
  const RaggedTag d;
  for (int64_t b = 0; b < a.B; ++b) {
    const float* u = a.u + a.state[b] * a.width;
    float* logits = a.logits + b * a.slots;
    const int64_t first = a.offsets[b], count = a.offsets[b + 1] - first;
    for (int64_t i = 0; i < count; ++i) {
      const float* v = a.v + a.successor[first + i] * a.width;
      RaggedSum sum;
      for_each_vector(d, a.width, [&](int64_t k, auto part) HWY_ATTR {
        auto& of = sum.of(int(k / RaggedSum::kLanes));
        of = hn::MulAdd(part.load(u + k), part.load(v + k), of);
      });
      logits[i] = a.scale * sum.fold();
    }
    std::fill(logits + count, logits + a.slots, 0.f);
  }
}

void ragged_dot_back(const RaggedDotBack& back) {
  const RaggedTag d;
  const RaggedDot& a = back.of;
  for (int64_t b = 0; b < a.B; ++b) {
    const float* u = a.u + a.state[b] * a.width;
    float* d_u = back.d_u + a.state[b] * a.width;
    const int64_t first = a.offsets[b], count = a.offsets[b + 1] - first;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t place = a.successor[first + i] * a.width;
      const float* v = a.v + place;
      float* d_v = back.d_v + place;
      const auto g = hn::Set(d, a.scale * back.d_logits[b * a.slots + i]);
      for_each_vector(d, a.width, [&](int64_t k, auto part) HWY_ATTR {
        part.store(hn::MulAdd(g, part.load(v + k), part.load(d_u + k)), d_u + k);
        part.store(hn::MulAdd(g, part.load(u + k), part.load(d_v + k)), d_v + k);
      });
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {
namespace {

uint64_t hash_of_goal(const int32_t* goal, int64_t width) {
  uint64_t hash = 0x9E3779B97F4A7C15u;
  for (int64_t i = 0; i < width; ++i) {
    // splitmix64's mixer
    hash = (hash ^ uint32_t(goal[i])) * 0xBF58476D1CE4E5B9u;
    hash ^= hash >> 31;
  }
  return hash * 0x94D049BB133111EBu >> 32;
}

}  // namespace

HWY_EXPORT(ragged_dot);
HWY_EXPORT(ragged_dot_back);

void ragged_dot_cpu(const RaggedDot& args) { HWY_DYNAMIC_DISPATCH(ragged_dot)(args); }
void ragged_dot_back_cpu(const RaggedDotBack& args) { HWY_DYNAMIC_DISPATCH(ragged_dot_back)(args); }

void successor_offsets_cpu(const GoalColumns& c, int32_t* offsets) {
  offsets[0] = 0;
  for (int64_t b = 0; b < c.B; ++b) {
    const int32_t* row = c.successors + b * c.slots * c.width;
    int32_t count = 0;
    while (count < c.slots && row[count * c.width] != 0) ++count;
    offsets[b + 1] = offsets[b] + count;
  }
}

GoalCounts unique_goals_cpu(const UniqueGoals& a) {
  const GoalColumns& c = a.columns;
  const size_t bytes = size_t(c.width) * sizeof(int32_t);
  std::fill_n(a.table, a.table_size, -1);
  int32_t known = 0;
  // the number of a goal, a new one where it was not seen before
  const auto number_of = [&](const int32_t* goal) {
    for (uint64_t place = hash_of_goal(goal, c.width);; ++place) {
      int32_t& entry = a.table[place & uint64_t(a.table_size - 1)];
      if (entry < 0) {
        std::memcpy(a.goals + known * c.width, goal, bytes);
        return entry = known++;
      }
      if (std::memcmp(a.goals + entry * c.width, goal, bytes) == 0) return entry;
    }
  };
  GoalCounts counts{};
  if (c.states)
    for (int64_t b = 0; b < c.B; ++b) a.state[b] = number_of(c.states + b * c.width);
  counts.states = known;
  if (c.successors)
    for (int64_t b = 0; b < c.B; ++b)
      for (int32_t m = a.offsets[b]; m < a.offsets[b + 1]; ++m)
        a.successor[m] = number_of(c.successors + (b * c.slots + m - a.offsets[b]) * c.width);
  counts.all = known;
  return counts;
}

}  // namespace maglev
#endif
