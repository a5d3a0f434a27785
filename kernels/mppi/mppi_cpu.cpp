#include "kernels/mppi/mppi.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/mppi/mppi_element.h"

namespace maglev {
namespace {

// the bins' mean under softmax(logits + bias), in symlog space
float bins_mean(const TwoHotBins& bins, const void* logits, int64_t row, const float* bias,
                bool bf16) {
  float largest = -INFINITY;
  for (int64_t b = 0; b < bins.count; ++b)
    largest = std::max(largest, mppi_load(logits, row * bins.count + b, bf16) + bias[b]);
  float total = 0, sum = 0;
  for (int64_t b = 0; b < bins.count; ++b) {
    const float p = std::exp(mppi_load(logits, row * bins.count + b, bf16) + bias[b] - largest);
    total += p, sum += p * (bins.low + float(b) * bins.width());
  }
  return sum / total;
}

}  // namespace

void mppi_begin_cpu(const MppiBegin& a) {
  for (int64_t i = 0; i < a.N * a.H * a.A; ++i) mppi_begin_element(a, i);
  for (int64_t i = 0; i < a.I * a.N; ++i) mppi_begin_pair(a, i);
}

void mppi_sample_cpu(const MppiSample& a) {
  for (int64_t i = 0; i < a.N * a.H * (a.S - a.P) * a.A; ++i) mppi_sample_element(a, i);
}

void mppi_policy_cpu(const MppiPolicy& a) {
  for (int64_t i = 0; i < a.N * a.R * a.A; ++i) mppi_policy_element(a, i);
}

void mppi_reward_cpu(const MppiReward& a) {
  for (int64_t row = 0; row < a.N * a.R; ++row)
    mppi_reward_row(a, row, bins_mean(a.bins, a.logits, row, a.bias, a.bf16));
}

void mppi_total_cpu(const MppiTotal& a) {
  for (int64_t row = 0; row < a.N * a.S; ++row) {
    const int64_t first = 2 * (row / a.S), s = row % a.S;
    float q[2];
    for (int64_t k = 0; k < 2; ++k)
      q[k] = bins_mean(a.bins, a.logits, (first + k) * a.S + s, a.bias + (first + k) * a.bias_step,
                       a.bf16);
    mppi_total_row(a, row, q[0], q[1]);
  }
}

void mppi_elites_cpu(const MppiElites& a) {
  // a thread's own, so that a warm plan asks for no memory
  thread_local std::vector<int64_t> order;
  order.resize(static_cast<size_t>(a.S));
  for (int64_t n = 0; n < a.N; ++n) {
    const float* total = a.total + n * a.S;
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + a.E, order.end(),
                      [=](int64_t s, int64_t o) { return mppi_before(total, s, o); });
    float sum = 0;
    for (int64_t e = 0; e < a.E; ++e) {
      const int64_t s = order[size_t(e)];
      a.elites[n * a.E + e] = s;
      sum += a.scores[n * a.E + e] = std::exp(a.temperature * (total[s] - total[order[0]]));
    }
    for (int64_t e = 0; e < a.E; ++e) a.scores[n * a.E + e] /= sum;
  }
  for (int64_t i = 0; i < a.N * a.H * a.A; ++i) mppi_moments(a, i);
}

void mppi_choose_cpu(const MppiChoose& a) {
  for (int64_t n = 0; n < a.N; ++n) mppi_choose_row(a, n);
}

}  // namespace maglev
