#include "kernels/atom_sum/atom_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/atom_sum/atom_sum_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd/run-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using AtomTag = hn::CappedTag<float, 16>;

void atom_sum(const AtomSum& a) {
  const AtomTag d;
  for (int64_t g = 0; g < a.count; ++g) {
    const int32_t* goal = a.goals + g * a.slots * 3;
    const auto factor = hn::Set(d, atom_factor(a, g));
    for_each_vector(d, a.width, [&](int64_t i, auto part) HWY_ATTR {
      auto sum = hn::Zero(d);
      const auto add = [&](const float* table, int32_t row, float sign) HWY_ATTR {
        if (row != 0) sum = hn::MulAdd(hn::Set(d, sign), part.load(table + row * a.width + i), sum);
      };
      for (const int32_t *atom = goal, *end = goal + a.slots * 3; atom != end; atom += 3) {
        add(a.predicates, atom[0], 1.f);
        add(a.constants, atom[1], a.first_sign);
        add(a.constants, atom[2], a.second_sign);
      }
      part.store(sum * factor, a.out + g * a.width + i);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(atom_sum);

void atom_sum_cpu(const AtomSum& args) { HWY_DYNAMIC_DISPATCH(atom_sum)(args); }

void atom_words_cpu(const AtomWords& args) {
  for (int64_t g = 0; g < args.of.count; ++g) atom_words_of(args, g);
}

}  // namespace maglev
#endif
