#pragma once
// Counter-based random numbers (Philox 4x32-10, Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). A draw is a function of (seed, stream, counter) alone, so a run does not
// depend on threads, batching or device, and a resumed run continues the same sequence.

#include <cstdint>

#include "base/core/hd.h"

namespace maglev {

/// What a stream is for. Streams of different purposes never overlap.
enum class Purpose : uint32_t {
  env = 1,
  act = 2,
  permute = 3,
  init = 4,
  eval = 5,
  replay = 6,    ///< which sequences a batch takes
  update = 7,    ///< what an update draws: actions, dropout, which heads
  opponent = 8,  ///< which opponent plays, and what a scripted one draws
  dataset = 9,   ///< what a generator of data draws
};

struct PhiloxBlock {
  uint32_t word[4];
};

/// One block of four 32-bit words at `counter` of `stream` under key `seed`.
MAGLEV_HD PhiloxBlock philox(uint64_t seed, uint64_t stream, uint64_t counter) {
  uint32_t c0 = uint32_t(counter), c1 = uint32_t(counter >> 32);
  uint32_t c2 = uint32_t(stream), c3 = uint32_t(stream >> 32);
  uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t(0xD2511F53u) * c0, p1 = uint64_t(0xCD9E8D57u) * c2;
    uint32_t n0 = uint32_t(p1 >> 32) ^ c1 ^ k0, n2 = uint32_t(p0 >> 32) ^ c3 ^ k1;
    c1 = uint32_t(p1), c3 = uint32_t(p0), c0 = n0, c2 = n2;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// The stream of one consumer: `index` is an environment, a row or an epoch, below 2^56.
MAGLEV_HD uint64_t stream_id(Purpose purpose, uint64_t index) {
  return (uint64_t(purpose) << 56) | index;
}

/// Uniform in [0, 1), 24 bits.
MAGLEV_HD float uniform01(uint32_t word) { return float(word >> 8) * (1.f / 16777216.f); }

/// A cursor over one stream. Cheap to make; keep `counter` and make it again to continue where it
/// stopped. Words left over in a block are dropped when the cursor goes.
class Rng {
 public:
  MAGLEV_HD Rng(uint64_t seed, uint64_t stream, uint64_t counter)
      : seed_(seed), stream_(stream), counter_(counter), block_{}, left_(0) {}

  MAGLEV_HD uint32_t bits() {
    if (left_ == 0) {
      block_ = philox(seed_, stream_, counter_++);
      left_ = 4;
    }
    return block_.word[--left_];
  }
  /// Uniform in [0, 1).
  MAGLEV_HD float uniform() { return uniform01(bits()); }
  /// Uniform in [low, high).
  MAGLEV_HD float uniform(float low, float high) { return low + (high - low) * uniform(); }
  /// Uniform integer in [0, n), 1 <= n < 2^32, without visible bias (multiply-shift; bias below n /
  /// 2^32).
  MAGLEV_HD uint32_t below(uint32_t n) { return uint32_t((uint64_t(bits()) * n) >> 32); }

  MAGLEV_HD uint64_t counter() const { return counter_; }

 private:
  uint64_t seed_, stream_, counter_;
  PhiloxBlock block_;
  int left_;
};

}  // namespace maglev
