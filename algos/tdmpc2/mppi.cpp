#include "algos/tdmpc2/mppi.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace maglev::tdmpc2 {

Rounds::Rounds(const PlanSizes& s)
    : actions(size_t(s.H * s.S * s.A)),
      values(size_t(s.S)),
      mean(size_t(s.H * s.A)),
      std(size_t(s.H * s.A)),
      order(size_t(s.S)),
      scores(size_t(s.E)) {}

void begin_rounds(const RoundOptions& options, const float* previous, Rounds& r) {
  const auto [H, S, P, E, I, A] = options.sizes;
  std::fill(r.mean.begin(), r.mean.end(), 0.f);
  if (previous) std::copy(previous + A, previous + H * A, r.mean.begin());
  std::fill(r.std.begin(), r.std.end(), options.max_std);
}

void end_round(const RoundOptions& options, const float* mask, Rounds& r) {
  const auto [H, S, P, E, I, A] = options.sizes;
  std::iota(r.order.begin(), r.order.end(), 0);
  std::partial_sort(r.order.begin(), r.order.begin() + E, r.order.end(), [&](int32_t a, int32_t b) {
    const float x = r.values[size_t(a)], y = r.values[size_t(b)];
    return x != y ? x > y : a < b;
  });
  const float best = r.values[size_t(r.order[0])];
  float total = 0;
  for (int64_t e = 0; e < E; ++e) {
    const float value = r.values[size_t(r.order[size_t(e)])];
    total += r.scores[size_t(e)] = std::exp(options.temperature * (value - best));
  }
  for (float& score : r.scores) score /= total;
  for (int64_t t = 0; t < H; ++t)
    for (int64_t a = 0; a < A; ++a) {
      const float* column = r.actions.data() + t * S * A + a;
      const auto action = [&](int64_t e) { return column[r.order[size_t(e)] * A]; };
      float mean = 0, square = 0;
      for (int64_t e = 0; e < E; ++e) mean += r.scores[size_t(e)] * action(e);
      for (int64_t e = 0; e < E; ++e) {
        const float d = action(e) - mean;
        square += r.scores[size_t(e)] * d * d;
      }
      const float kept = mask ? mask[a] : 1.f;
      r.mean[size_t(t * A + a)] = kept * mean;
      r.std[size_t(t * A + a)] =
          kept * std::clamp(std::sqrt(square), options.min_std, options.max_std);
    }
}

int64_t choose_elite(const Rounds& r, const float* uniforms) {
  int64_t chosen = 0;
  float largest = 0;
  for (size_t e = 0; e < r.scores.size(); ++e) {
    const float sum = std::log(r.scores[e]) - std::log(-std::log(uniforms[e]));
    if (e == 0 || sum > largest) largest = sum, chosen = int64_t(e);
  }
  return chosen;
}

}  // namespace maglev::tdmpc2
