#pragma once
// Goals embedded as sums of table rows: each atom predicate(first, second) adds its predicate's row
// and, with a sign each, its arguments' rows. Padding is number 0, whose rows count nothing.

#include <cstdint>

#include "base/core/hd.h"

namespace maglev {

/// What a goal's sum is divided by.
enum class AtomDivisor { one, slots, atoms };  ///< nothing; places for atoms; atoms that are there

struct AtomSum {
  const int32_t* goals;  ///< [count, slots, 3]: predicate, first, second
  int64_t count, slots;
  const float *predicates, *constants;    ///< [.., width]
  int64_t predicate_rows, constant_rows;  ///< of the tables
  int64_t width;
  float first_sign, second_sign;
  AtomDivisor divisor;
  float* out;  ///< [count, width], written
};
void atom_sum_cpu(const AtomSum& args);
/// A goal with a number that is no row becomes no number. On `stream` (a cudaStream_t); returns a
/// cudaError_t, as the one below. Only in builds with device code.
int atom_sum_cuda(const AtomSum& args, void* stream);

/// The rows that goals are sums of, as addends of their gradient (kernels/keyed_sum): a goal's
/// words one behind the other.
struct AtomWords {
  AtomSum of;     ///< out is not written
  int32_t* row;   ///< [count, slots, 3]: predicates, then constants; -1: the word counts nothing
  int32_t* goal;  ///< likewise, the goal it is of
  float* weight;  ///< likewise, what it is multiplied by there
};
void atom_words_cpu(const AtomWords& args);
int atom_words_cuda(const AtomWords& args, void* stream);

/// What the sum of goal g is multiplied by.
MAGLEV_HD float atom_factor(const AtomSum& a, int64_t g) {
  if (a.divisor == AtomDivisor::one) return 1.f;
  if (a.divisor == AtomDivisor::slots) return 1.f / float(a.slots);
  int64_t atoms = 0;
  for (int64_t s = 0; s < a.slots; ++s) atoms += a.goals[(g * a.slots + s) * 3] != 0;
  return atoms == 0 ? 0.f : 1.f / float(atoms);
}

MAGLEV_HD void atom_words_of(const AtomWords& to, int64_t g) {
  const AtomSum& a = to.of;
  const float factor = atom_factor(a, g);
  for (int64_t i = g * a.slots * 3; i < (g + 1) * a.slots * 3; ++i) {
    const int32_t number = a.goals[i];
    const bool predicate = i % 3 == 0;
    const bool counts = number > 0 && number < (predicate ? a.predicate_rows : a.constant_rows);
    to.row[i] = !counts ? -1 : predicate ? number : int32_t(a.predicate_rows) + number;
    to.goal[i] = int32_t(g);
    to.weight[i] = factor * (predicate ? 1.f : i % 3 == 1 ? a.first_sign : a.second_sign);
  }
}

}  // namespace maglev
