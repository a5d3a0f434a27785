#include "kernels/ragged/ragged.h"

#include <algorithm>
#include <cstring>
#include <limits>

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
    const int32_t* successor = a.successor + b * a.slots;
    float* logits = a.logits + b * a.slots;
    for (int64_t i = 0; i < a.slots; ++i) {
      if (successor[i] < 0) {
        logits[i] = successor[i] == kNoGoal ? 0.f : std::numeric_limits<float>::quiet_NaN();
        continue;
      }
      const float* v = a.v + successor[i] * a.width;
      RaggedSum sum;
      for_each_vector(d, a.width, [&](int64_t k, auto part) HWY_ATTR {
        auto& of = sum.of(int(k / RaggedSum::kLanes));
        of = hn::MulAdd(part.load(u + k), part.load(v + k), of);
      });
      logits[i] = a.scale * sum.fold();
    }
  }
}

void ragged_dot_back(const RaggedDotBack& back) {
  const RaggedTag d;
  const RaggedDot& a = back.of;
  for (int64_t b = 0; b < a.B; ++b) {
    const int32_t* successor = a.successor + b * a.slots;
    const float* d_logits = back.d_logits + b * a.slots;
    float* d_u = back.d_u + b * a.width;
    std::fill(d_u, d_u + a.width, 0.f);
    for (int64_t i = 0; i < a.slots && successor[i] != kNoGoal; ++i) {
      if (successor[i] == kNoRoom) continue;
      const float* v = a.v + successor[i] * a.width;
      const auto g = hn::Set(d, a.scale * d_logits[i]);
      for_each_vector(d, a.width, [&](int64_t k, auto part) HWY_ATTR {
        part.store(hn::MulAdd(g, part.load(v + k), part.load(d_u + k)), d_u + k);
      });
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(ragged_dot);
HWY_EXPORT(ragged_dot_back);

void ragged_dot_cpu(const RaggedDot& args) { HWY_DYNAMIC_DISPATCH(ragged_dot)(args); }
void ragged_dot_back_cpu(const RaggedDotBack& args) { HWY_DYNAMIC_DISPATCH(ragged_dot_back)(args); }

int64_t count_successors_cpu(const GoalColumns& c) {
  int64_t count = 0;
  for (int64_t b = 0; b < c.B; ++b) {
    const int32_t* row = c.successors + b * c.slots * c.width;
    for (int64_t i = 0; i < c.slots && row[i * c.width] != 0; ++i) ++count;
  }
  return count;
}

GoalCounts unique_goals_cpu(const UniqueGoals& a) {
  const GoalColumns& c = a.columns;
  const size_t bytes = size_t(c.width) * sizeof(int32_t);
  int32_t known = 0;
  // the number of a goal, a new one where it was not seen before
  const auto number_of = [&](const int32_t* goal) {
    for (uint64_t place = hash_of_goal(goal, c.width);; ++place) {
      int32_t& entry = a.table[place & uint64_t(a.table_size - 1)];
      if (entry < 0) {
        if (known == a.room) return kNoRoom;
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
    for (int64_t b = 0; b < c.B; ++b) {
      const int32_t* goal = c.successors + b * c.slots * c.width;
      int32_t *number = a.successor + b * c.slots, *end = number + c.slots;
      for (; number != end && goal[0] != 0; goal += c.width) *number++ = number_of(goal);
      std::fill(number, end, kNoGoal);
    }
  counts.all = known;
  return counts;
}

}  // namespace maglev
#endif
