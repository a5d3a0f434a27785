#pragma once
// Weights by which a prioritised replay draws, and the tree over them: sums of 16, sums of 16 of
// those, and so on. All of it is integers, so that every machine, number of threads and order of
// additions has the same sums, and the same draw for the same random bits.

#include <cstdint>
#include <cstring>

#include "base/core/hd.h"

namespace maglev {

/// Weights are fixed-point numbers: 1 is kWeightOne, and what may be drawn has at least
/// 1 / kWeightOne and less than 8192.
constexpr int kWeightBits = 18;
constexpr int32_t kWeightOne = 1 << kWeightBits;
constexpr int32_t kMostWeight = INT32_MAX;
/// Leaves below which the sum of all fits into 63 bits, whatever they weigh.
constexpr int64_t kMostLeaves = int64_t(1) << 32;
/// What an exponent of 1 is for weight_of.
constexpr int64_t kExponentOne = 1 << 16;

/// *value += delta; many threads of a kernel may be at it.
MAGLEV_HD void add_to(int64_t* value, int64_t delta) {
#ifdef __CUDA_ARCH__
  atomicAdd(reinterpret_cast<unsigned long long*>(value), static_cast<unsigned long long>(delta));
#else
  *value += delta;
#endif
}

/// *value = max(*value, with), likewise.
MAGLEV_HD void raise_to(int64_t* value, int64_t with) {
#ifdef __CUDA_ARCH__
  atomicMax(reinterpret_cast<long long*>(value), static_cast<long long>(with));
#else
  if (*value < with) *value = with;
#endif
}

/// priority^(exponent / kExponentOne) as a weight (Schaul et al., "Prioritized experience replay",
/// 2016) for a power in 0..4: within (1 + power) 60,000ths of it and half a kWeightOne-th. What is no
/// positive normal number weighs least.
MAGLEV_HD int32_t weight_of(float priority, int64_t exponent) {
  if (exponent == 0) return kWeightOne;
  if (!(priority >= 0x1p-126f)) return 1;
  uint32_t bits;
  memcpy(&bits, &priority, sizeof bits);
  // the logarithm to base 2, 16 bits of its fraction: each square of x in [1, 2) tells one more
  int64_t log2 = int64_t(bits >> 23) - 127;
  uint64_t x = uint64_t((bits & 0x7fffff) | 0x800000) << 8;
  for (int i = 0; i < 16; ++i) {
    x = x * x >> 31;
    const uint64_t bit = x >> 32;
    log2 = 2 * log2 + int64_t(bit);
    x >>= bit;
  }
  // 2 to the power of its multiple: whole part n, and a product of 2^(2^-i) for the fraction's bits
  constexpr uint32_t kRoots[16] = {0xb504f334, 0x9837f052, 0x8b95c1e4, 0x85aac368,
                                   0x82cd8699, 0x8164d1f4, 0x80b1ed50, 0x8058d7d3,
                                   0x802c6437, 0x8016302f, 0x800b179d, 0x80058baf,
                                   0x8002c5d0, 0x800162e6, 0x8000b173, 0x800058b9};
  const int64_t power = (log2 * exponent + kExponentOne / 2) >> 16, n = power >> 16;
  uint64_t y = uint64_t(1) << 31;
  for (int i = 0; i < 16; ++i)
    if (power >> (15 - i) & 1) y = y * kRoots[i] >> 31;
  const int64_t shift = 31 - kWeightBits - n;
  if (shift <= 0) return kMostWeight;
  if (shift > 32) return 1;
  const uint64_t weight = (y + (uint64_t(1) << (shift - 1))) >> shift;
  return weight < 1 ? 1 : weight > uint64_t(kMostWeight) ? kMostWeight : int32_t(weight);
}

/// Raw pointers; the arrays are where the functions run.
struct WeightTree {
  int64_t leaves;   ///< < kMostLeaves
  int32_t* weight;  ///< [leaves]; 0: never drawn
  int64_t* sums;    ///< [weight_sums(leaves)] levels behind each other, the lowest first
};

/// Of one node. A node's children are one or two lines of a cache.
constexpr int64_t kFan = 16;
/// Levels of sums that kMostLeaves have.
constexpr int kMostLevels = 8;

/// Sums that a tree over so many leaves has: levels until one has no more than kFan.
MAGLEV_HD int64_t weight_sums(int64_t leaves) {
  int64_t sums = 0;
  for (int64_t count = leaves; count > kFan; sums += count) count = (count + kFan - 1) / kFan;
  return sums;
}

/// Leaf `leaf` weighs `delta` more, in the sums.
MAGLEV_HD void add_weight(const WeightTree& t, int64_t leaf, int64_t delta) {
  int64_t* level = t.sums;
  for (int64_t count = t.leaves, node = leaf; count > kFan; level += count) {
    count = (count + kFan - 1) / kFan, node /= kFan;
    add_to(&level[node], delta);
  }
}

/// The leaf that number `k` of all weights falls to, in [0, sum of them).
MAGLEV_HD int64_t find_weight(const WeightTree& t, int64_t k) {
  int64_t begin[kMostLevels];
  int levels = 0;
  for (int64_t count = t.leaves, sums = 0; count > kFan; sums += count) {
    count = (count + kFan - 1) / kFan;
    begin[levels++] = sums;
  }
  int64_t i = 0;
  while (levels > 0) {
    const int64_t* sums = t.sums + begin[--levels];
    for (; k >= sums[i]; ++i) k -= sums[i];
    i *= kFan;
  }
  for (; k >= t.weight[i]; ++i) k -= t.weight[i];
  return i;
}

}  // namespace maglev
