#pragma once
// A random permutation as a function of the index: no memory, no sort, the same on every device. A
// Feistel network over the next power of two, walked until it lands inside (Mitchell, Stokes, Frank
// and Holmes, "Bandwidth-optimal random shuffling for GPUs", 2021).

#include <cstdint>

#include "base/core/philox.h"

namespace maglev {

/// The bijection of [0, n) numbered `counter` in the stream of permutations of `seed`. 1 <= n <=
/// 2^40.
class Permutation {
 public:
  MAGLEV_HD Permutation(uint64_t seed, uint64_t counter, uint64_t n) : n_(n), low_bits_(1) {
    int bits = 2;
    while ((1ull << bits) < n) ++bits;
    low_bits_ = bits / 2;
    high_mask_ = (1ull << (bits - low_bits_)) - 1;
    for (int i = 0; i < kRounds; i += 4) {
      PhiloxBlock block = philox(seed, stream_id(Purpose::permute, uint64_t(i / 4)), counter);
      for (int j = 0; j < 4; ++j) keys_[i + j] = block.word[j];
    }
  }

  MAGLEV_HD uint64_t operator()(uint64_t index) const {
    const uint64_t low_mask = (1ull << low_bits_) - 1;
    do {
      uint64_t high = index >> low_bits_, low = index & low_mask;
      // each half is changed by a function of the other, so every round can be undone
      for (int r = 0; r < kRounds; r += 2) {
        high ^= mix(low, keys_[r]) & high_mask_;
        low ^= mix(high, keys_[r + 1]) & low_mask;
      }
      index = (high << low_bits_) | low;
    } while (index >= n_);
    return index;
  }

 private:
  static constexpr int kRounds = 8;

  MAGLEV_HD static uint64_t mix(uint64_t half, uint32_t key) {
    uint64_t x = (half + key) * 0x9E3779B97F4A7C15ull;
    x ^= x >> 29;
    x *= 0xD6E8FEB86659FD93ull;
    return x >> 32;
  }

  uint64_t n_, high_mask_;
  int low_bits_;
  uint32_t keys_[kRounds];
};

}  // namespace maglev
