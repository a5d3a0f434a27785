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

// work(table: 0 predicates or 1 constants, row, sign) for what goal g adds
template <class Work>
HWY_INLINE void for_each_row(const AtomSum& a, int64_t g, const Work& work) {
  const int32_t* atom = a.goals + g * a.slots * 3;
  for (int64_t s = 0; s < a.slots; ++s, atom += 3) {
    if (atom[0] != 0) work(0, atom[0], 1.f);
    if (atom[1] != 0) work(1, atom[1], a.first_sign);
    if (atom[2] != 0) work(1, atom[2], a.second_sign);
  }
}

HWY_INLINE float factor_of(const AtomSum& a, int64_t g) {
  if (a.divisor == AtomDivisor::one) return 1.f;
  if (a.divisor == AtomDivisor::slots) return 1.f / float(a.slots);
  int64_t atoms = 0;
  for (int64_t s = 0; s < a.slots; ++s) atoms += a.goals[(g * a.slots + s) * 3] != 0;
  return atoms == 0 ? 0.f : 1.f / float(atoms);
}

void atom_sum(const AtomSum& a) {
  const AtomTag d;
  const float* tables[] = {a.predicates, a.constants};
  for (int64_t g = 0; g < a.count; ++g) {
    const auto factor = hn::Set(d, factor_of(a, g));
    for_each_vector(d, a.width, [&](int64_t i, auto part) HWY_ATTR {
      auto sum = hn::Zero(d);
      for_each_row(a, g, [&](int table, int64_t row, float sign) HWY_ATTR {
        sum = hn::MulAdd(hn::Set(d, sign), part.load(tables[table] + row * a.width + i), sum);
      });
      part.store(sum * factor, a.out + g * a.width + i);
    });
  }
}

void atom_sum_back(const AtomSumBack& back) {
  const AtomTag d;
  const AtomSum& a = back.of;
  float* tables[] = {back.d_predicates, back.d_constants};
  for (int64_t g = 0; g < a.count; ++g) {
    const float factor = factor_of(a, g);
    const float* d_out = back.d_out + g * a.width;
    for_each_row(a, g, [&](int table, int64_t row, float sign) HWY_ATTR {
      float* to = tables[table] + row * a.width;
      const auto by = hn::Set(d, sign * factor);
      for_each_vector(d, a.width, [&](int64_t i, auto part) HWY_ATTR {
        part.store(hn::MulAdd(by, part.load(d_out + i), part.load(to + i)), to + i);
      });
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(atom_sum);
HWY_EXPORT(atom_sum_back);

void atom_sum_cpu(const AtomSum& args) { HWY_DYNAMIC_DISPATCH(atom_sum)(args); }
void atom_sum_back_cpu(const AtomSumBack& args) { HWY_DYNAMIC_DISPATCH(atom_sum_back)(args); }

}  // namespace maglev
#endif
