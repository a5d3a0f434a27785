#pragma once
// Which random numbers acting and updates draw: functions of a stream and an index alone, so that
// every implementation, on any device, in any batch, draws the same.

#include <cstdint>

#include "base/core/philox.h"
#include "base/env/act_key.h"
#include "kernels/noise/noise.h"

namespace maglev::dreamer {

/// Numbers an action takes, in the row's stream behind step * end. Each kind begins at a multiple
/// of four.
struct ActNumbers {
  int64_t posterior = 0;  ///< [S] uniforms: the stochastic state
  int64_t action = 0;     ///< normals, or a uniform a head
  int64_t end = 0;

  ActNumbers(int64_t stoch, int64_t actions)
      : action((stoch + 3) / 4 * 4), end(action + (actions + 3) / 4 * 4) {}
};

/// Numbers from `begin` on of `rows` rows, from row `first_row` on or as key.rows says.
inline NoiseFill act_fill(const ActKey& key, int64_t first_row, int64_t rows, int64_t begin,
                          const ActNumbers& numbers) {
  return {.seed = key.seed,
          .stream = stream_id(key.purpose, key.rows ? 0 : uint64_t(key.row_from(first_row))),
          .first = uint64_t(key.step * numbers.end + begin),
          .rows = rows,
          .count = 0,
          .base = key.base,
          .base_scale = uint64_t(numbers.end),
          .index = key.rows};
}

/// Kinds of an update's numbers: each has a stream.
enum class UpdateNumbers : uint64_t {
  posterior = 0,  ///< [T][B][S] uniforms
  prior = 1,      ///< [H][T * B][S] uniforms
  action = 2,     ///< [H + 1][T * B][...] normals, or a uniform a head
};

/// Numbers of a kind from `first` on, of update number *update (where the numbers are drawn).
inline NoiseFill update_fill(uint64_t seed, UpdateNumbers kind, const int64_t* update,
                             int64_t first = 0) {
  return {.seed = seed,
          .stream = stream_id(Purpose::update, uint64_t(kind)),
          .first = uint64_t(first),
          .rows = 1,
          .count = 0,
          .base = update,
          .base_scale = uint64_t(1) << 40};
}

}  // namespace maglev::dreamer
