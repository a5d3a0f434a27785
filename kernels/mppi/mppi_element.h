#pragma once
// What one thread of a planning kernel does, shared to the letter by the CPU's loops and CUDA's
// kernels: one element, row or environment.

#include <cstring>

#include "base/core/bfloat16.h"
#include "kernels/mppi/mppi.h"

namespace maglev {

MAGLEV_HD float mppi_load(const void* from, int64_t i, bool bf16) {
  if (!bf16) return static_cast<const float*>(from)[i];
  const uint32_t bits = uint32_t(static_cast<const uint16_t*>(from)[i]) << 16;
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
MAGLEV_HD void mppi_store(void* to, int64_t i, bool bf16, float x) {
  if (bf16) static_cast<uint16_t*>(to)[i] = bfloat16_bits(x);
  else static_cast<float*>(to)[i] = x;
}
MAGLEV_HD float mppi_normal(const NoiseFill& f, int64_t row, int64_t i) {
  return normal(f.seed, stream_of(f, row), first_index(f) + uint64_t(i));
}
MAGLEV_HD float mppi_uniform(const NoiseFill& f, int64_t row, int64_t i) {
  return uniform(f.seed, stream_of(f, row), first_index(f) + uint64_t(i));
}
/// symexp of a sum of probability times bin.
MAGLEV_HD float mppi_symexp(float x) {
  const float size = expf(fabsf(x)) - 1.f;
  return x < 0 ? -size : size;
}

/// Element i of [N, H, A].
MAGLEV_HD void mppi_begin_element(const MppiBegin& a, int64_t i) {
  const int64_t n = i / (a.H * a.A), t = i / a.A % a.H;
  a.mean[i] = a.is_first[n] || t + 1 == a.H ? 0.f : a.prev_mean[i + a.A];
  a.std[i] = a.max_std;
}
/// Element i of [I, N].
MAGLEV_HD void mppi_begin_pair(const MppiBegin& a, int64_t i) {
  const int64_t round = i / a.N, n = i % a.N, pairs = a.num_q * (a.num_q - 1) / 2;
  int64_t left = int64_t(mppi_uniform(a.pair_noise, n, round) * float(pairs));
  if (left >= pairs) left = pairs - 1;
  int64_t first = 0;
  for (; left >= a.num_q - 1 - first; ++first) left -= a.num_q - 1 - first;
  a.pair[2 * i] = first, a.pair[2 * i + 1] = first + 1 + left;
}

/// Element i of [N, H, S - P, A].
MAGLEV_HD void mppi_sample_element(const MppiSample& a, int64_t i) {
  const int64_t R = a.S - a.P, k = i % a.A, r = i / a.A % R, t = i / (a.A * R) % a.H,
                n = i / (a.A * R * a.H), moment = (n * a.H + t) * a.A + k;
  const float noise = mppi_normal(a.noise, n, (t * R + r) * a.A + k);
  float x = a.mean[moment] + a.std[moment] * noise;
  x = x < -1.f ? -1.f : x > 1.f ? 1.f : x;
  if (a.mask) x *= a.mask[n * a.A + k];
  a.actions[((n * a.H + t) * a.S + a.P + r) * a.A + k] = x;
  mppi_store(a.inputs, ((t * a.N + n) * R + r) * a.ld + k, a.bf16, x);
}

/// Element i of [N, R, A].
MAGLEV_HD void mppi_policy_element(const MppiPolicy& a, int64_t i) {
  const int64_t k = i % a.A, r = i / a.A % a.R, n = i / (a.A * a.R);
  const int64_t row = (a.shared ? n : n * a.R + r) * 2 * a.A;
  const float mask = a.mask ? a.mask[n * a.A + k] : 1.f;
  float x = (mppi_load(a.head, row + k, a.bf16) + a.bias[k]) * mask;
  if (!a.mean) {
    const float spread = tanhf(mppi_load(a.head, row + a.A + k, a.bf16) + a.bias[a.A + k]);
    const float log_std = a.log_std_low + 0.5f * (a.log_std_high - a.log_std_low) * (spread + 1.f);
    x += mppi_normal(a.noise, n, r * a.A + k) * mask * expf(log_std * mask);
  }
  x = tanhf(x);
  if (a.actions) a.actions[n * a.actions_env + r * a.A + k] = x;
  mppi_store(a.inputs, n * a.inputs_env + r * a.ld + k, a.bf16, x);
}

/// Row n * R + r, whose reward is symexp(`symlog_reward`).
MAGLEV_HD void mppi_reward_row(const MppiReward& a, int64_t row, float symlog_reward) {
  const int64_t n = row / a.R, at = n * a.S + a.first + row % a.R;
  float alive = a.begin ? 1.f : a.alive[at];
  if (a.end.logit)
    alive = mppi_going_on(alive, mppi_load(a.end.logit, row, a.bf16) + *a.end.bias, a.end.soft);
  const float reward = a.discount[n * a.discount_env] * alive * mppi_symexp(symlog_reward);
  a.value[at] = a.begin ? reward : a.value[at] + reward;
  a.alive[at] = alive;
}

/// Sequence n * S + s, whose two values behind the horizon are symexp of these.
MAGLEV_HD void mppi_total_row(const MppiTotal& a, int64_t row, float first, float second) {
  float alive = a.alive[row];
  if (a.end.logit)
    alive = mppi_going_on(alive, mppi_load(a.end.logit, row, a.bf16) + *a.end.bias, a.end.soft);
  const float value = (mppi_symexp(first) + mppi_symexp(second)) / 2;
  const float total = a.value[row] + a.discount[row / a.S * a.discount_env] * alive * value;
  a.total[row] = total == total ? total : 0.f;
}

/// Whether sequence s comes before sequence o.
MAGLEV_HD bool mppi_before(const float* total, int64_t s, int64_t o) {
  return total[s] > total[o] || (total[s] == total[o] && s < o);
}

/// Writes element i of [N, H, A], of the weighted mean and the weighted squares around it.
MAGLEV_HD void mppi_moment(const MppiElites& a, int64_t i, float mean, float squares) {
  const int64_t k = i % a.A, n = i / (a.A * a.H);
  float std = sqrtf(squares);
  std = std < a.min_std ? a.min_std : std > a.max_std ? a.max_std : std;
  const float mask = a.mask ? a.mask[n * a.A + k] : 1.f;
  a.mean[i] = mean * mask, a.std[i] = std * mask;
}

/// Weighted moments of element i of [N, H, A], once elites and scores are there.
MAGLEV_HD void mppi_moments(const MppiElites& a, int64_t i) {
  const int64_t k = i % a.A, t = i / a.A % a.H, n = i / (a.A * a.H);
  const float* actions = a.actions + (n * a.H + t) * a.S * a.A + k;
  const int64_t* elites = a.elites + n * a.E;
  const float* scores = a.scores + n * a.E;
  float mean = 0, squares = 0;
  for (int64_t e = 0; e < a.E; ++e) mean += scores[e] * actions[elites[e] * a.A];
  for (int64_t e = 0; e < a.E; ++e) {
    const float x = actions[elites[e] * a.A] - mean;
    squares += scores[e] * x * x;
  }
  mppi_moment(a, i, mean, squares);
}

/// Environment n.
MAGLEV_HD void mppi_choose_row(const MppiChoose& a, int64_t n) {
  int64_t chosen = 0;
  float best = 0;
  for (int64_t e = 0; e < a.E; ++e) {
    const float gumbel = -logf(-logf(mppi_uniform(a.gumbel, n, e)));
    const float x = logf(a.scores[n * a.E + e]) + gumbel;
    if (e == 0 || x > best) best = x, chosen = e;
  }
  const float* action = a.actions + (n * a.H * a.S + a.elites[n * a.E + chosen]) * a.A;
  for (int64_t k = 0; k < a.A; ++k) {
    float x = action[k];
    if (a.explore) x += a.std[n * a.H * a.A + k] * mppi_normal(a.noise, n, k);
    a.action[n * a.A + k] = x < -1.f ? -1.f : x > 1.f ? 1.f : x;
  }
}

}  // namespace maglev
