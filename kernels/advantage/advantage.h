#pragma once
// Mean and deviation of advantages over the valid rows of a minibatch or a rollout, for their
// normalisation: (a - mean) * scale.

#include <cmath>
#include <cstdint>

#include "base/core/hd.h"

namespace maglev {

/// Positions a partial result covers. Cut from sizes alone, so threads never show in a result.
constexpr int64_t kAdvantageChunk = 1024;

struct AdvantageArgs {
  const float* advantage;  ///< [M]
  const float* valid;      ///< [M], 0 or 1
  const int64_t* index;    ///< [count] positions in [0, M); null: 0, 1, ...
  int64_t count;           ///< of positions, at least 1
};

/// Of one chunk: valid rows, their mean, and the sum of squared distances from that mean.
struct AdvantagePartial {
  double count, mean, squares;
};

struct AdvantageStatistics {
  float mean;
  float scale;          ///< 1 / (std + 1e-8), std with count - 1 in the denominator, at least 1
  float inverse_count;  ///< 1 / valid rows; 0: there is none
};

MAGLEV_HD int64_t advantage_chunks(int64_t count) {
  return (count + kAdvantageChunk - 1) / kAdvantageChunk;
}

/// Positions [chunk * kAdvantageChunk, ...) of `args`.
AdvantagePartial advantage_partial(const AdvantageArgs& args, int64_t chunk);
/// Joins `p` to `all` (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for
/// computing sample variances", 1979).
MAGLEV_HD AdvantagePartial& operator+=(AdvantagePartial& all, const AdvantagePartial& p) {
  if (p.count == 0) return all;
  const double total = all.count + p.count, shift = p.mean - all.mean;
  all.mean += shift * (p.count / total);
  all.squares += p.squares + shift * shift * (all.count * p.count / total);
  all.count = total;
  return all;
}
/// Joins partials [chunks] in order.
MAGLEV_HD AdvantagePartial advantage_join(const AdvantagePartial* partial, int64_t chunks) {
  AdvantagePartial all{0, 0, 0};
  for (int64_t c = 0; c < chunks; ++c) all += partial[c];
  return all;
}

MAGLEV_HD AdvantageStatistics advantage_finish(const AdvantagePartial& all) {
  const double deviation = sqrt(all.squares / (all.count > 2 ? all.count - 1 : 1));
  return {.mean = float(all.mean),
          .scale = float(1 / (deviation + 1e-8)),
          .inverse_count = all.count > 0 ? float(1 / all.count) : 0.f};
}

/// What is explained of a spread of which `rest` is left (sums of squares); NaN where there is
/// none.
MAGLEV_HD float advantage_explained(double spread, double rest) {
  return spread > 0 ? float(1 - rest / spread) : NAN;
}

/// partial [advantage_chunks(count)] and statistics [1] in device memory, on `stream` (a
/// cudaStream_t); return a cudaError_t. Only in builds with device code.
int advantage_cuda(const AdvantageArgs& args, AdvantagePartial* partial,
                   AdvantageStatistics* statistics, void* stream);
/// The partials alone, for who joins them on the way (advantage.cuh).
int advantage_partials_cuda(const AdvantageArgs& args, AdvantagePartial* partial, void* stream);
/// 1 - Var(target - value) / Var(target) into explained [1]: `args` are of the target, value [M];
/// partial [2][advantage_chunks(count)].
int explained_variance_cuda(const AdvantageArgs& args, const float* value,
                            AdvantagePartial* partial, float* explained, void* stream);

}  // namespace maglev
