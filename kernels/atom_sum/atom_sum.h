#pragma once
// Goals embedded as sums of table rows: each atom predicate(first, second) adds its predicate's row
// and, with a sign each, its arguments' rows. Padding is number 0, whose rows count nothing.

#include <array>
#include <cstdint>

namespace maglev {

/// What a goal's sum is divided by.
enum class AtomDivisor { one, slots, atoms };  ///< nothing; places for atoms; atoms that are there

struct AtomSum {
  const int32_t* goals;  ///< [count, slots, 3]: predicate, first, second
  int64_t count, slots;
  const float *predicates, *constants;  ///< [.., width]
  int64_t width;
  float first_sign, second_sign;
  AtomDivisor divisor;
  float* out;  ///< [count, width], written
};
void atom_sum_cpu(const AtomSum& args);

/// Goals one after another: a sum's order is theirs.
struct AtomSumBack {
  AtomSum of;
  const float* d_out;                 ///< [count, width]
  float *d_predicates, *d_constants;  ///< as the tables, added to; row 0 is left alone
};
void atom_sum_back_cpu(const AtomSumBack& args);

}  // namespace maglev
