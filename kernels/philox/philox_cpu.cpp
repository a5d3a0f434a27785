#include "kernels/philox/philox.h"

#include <cmath>

namespace maglev {

void philox_uniform_cpu(const PhiloxFill& fill, float* out) {
  for (int64_t i = 0; i < fill.rows; ++i) {
    float* row = out + i * fill.width;
    for (int64_t j = 0; j < fill.width; j += 4) {
      PhiloxBlock block = philox_row_block(fill, i, j / 4);
      for (int64_t k = 0; k < 4 && j + k < fill.width; ++k)
        row[j + k] = open_uniform(block.word[k]);
    }
  }
}

void philox_normal_cpu(const PhiloxFill& fill, float* out) {
  constexpr float two_pi = 6.28318530717958648f;
  for (int64_t i = 0; i < fill.rows; ++i) {
    float* row = out + i * fill.width;
    for (int64_t j = 0; j < fill.width; j += 2) {
      PhiloxBlock block = philox_row_block(fill, i, j / 2);
      float radius = std::sqrt(-2.f * std::log(open_uniform(block.word[0])));
      float angle = two_pi * open_uniform(block.word[1]);
      row[j] = radius * std::cos(angle);
      if (j + 1 < fill.width) row[j + 1] = radius * std::sin(angle);
    }
  }
}

void permutation_cpu(const PermutationKey& key, int64_t first, int64_t count, int64_t* out) {
  const Permutation permutation = permutation_of(key);
  for (int64_t i = 0; i < count; ++i) out[i] = int64_t(permutation(uint64_t(first + i)));
}

}  // namespace maglev
