#include "base/device/launch.cuh"
#include "base/device/warp.cuh"
#include "kernels/categoricals/categoricals.h"

namespace maglev {
namespace {

constexpr int kThreads = 128, kWarps = 4;

// mixed probabilities [C] of one categorical's logits, by one thread
__device__ void mixed_probs(const Categoricals& of, const float* logits, const float* bias,
                            float* probs) {
  float largest = logits[0] + bias[0], sum = 0;
  for (int64_t c = 1; c < of.C; ++c) largest = fmaxf(largest, logits[c] + bias[c]);
  for (int64_t c = 0; c < of.C; ++c) {
    probs[c] = expf(logits[c] + bias[c] - largest);
    sum += probs[c];
  }
  const float share = (1.f - of.unimix) / sum, floor = of.floor();
  for (int64_t c = 0; c < of.C; ++c) probs[c] = probs[c] * share + floor;
}

// a thread a categorical
__global__ void draw(CategoricalDraw a) {
  wait_for_earlier();
  const int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, C = a.of.C;
  if (e >= a.of.rows * a.of.S) return;
  const int64_t r = e / a.of.S, s = e % a.of.S;
  float *probs = a.probs + e * C, *one_hot = a.one_hot + r * a.one_hot_row + s * C;
  mixed_probs(a.of, a.logits + e * C, a.bias + s * C, probs);
  const float uniform = a.uniforms[e];
  int64_t drawn = 0;
  float end = 0;
  for (int64_t c = 0; c + 1 < C; ++c) {
    end += probs[c];
    drawn += end <= uniform;
  }
  for (int64_t c = 0; c < C; ++c) one_hot[c] = c == drawn ? 1.f : 0.f;
  if (a.carried.data)
    for (int64_t c = 0; c < C; ++c)
      a.carried.of(r)[s * C + c] = c == drawn ? a.carried.keep[r] : 0.f;
  if (a.category) a.category[e] = uint8_t(drawn);
}

__global__ void back(CategoricalBack a) {
  wait_for_earlier();
  const int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, C = a.of.C;
  if (e >= a.of.rows * a.of.S) return;
  const int64_t r = e / a.of.S, s = e % a.of.S;
  const float *probs = a.probs + e * C, *d_one_hot = a.d_one_hot + r * a.d_one_hot_row + s * C;
  float* d_logits = a.d_logits + e * C;
  const float floor = a.of.floor();
  float dot = 0;
  for (int64_t c = 0; c < C; ++c) {
    d_logits[c] = d_one_hot[c] + (a.d_probs ? a.d_probs[e * C + c] : 0.f);
    if (a.d_carried.data) d_logits[c] += a.d_carried.of(r)[s * C + c] * a.d_carried.keep[r];
    dot += (probs[c] - floor) * d_logits[c];
  }
  dot *= a.of.unmixed();
  for (int64_t c = 0; c < C; ++c) d_logits[c] = (probs[c] - floor) * (d_logits[c] - dot);
}

// a warp a row, a thread a categorical of it after another
__global__ void divergence(CategoricalDivergence a) {
  wait_for_earlier();
  const int64_t r = int64_t(blockIdx.x) * kWarps + threadIdx.x / kWarpThreads;
  if (r >= a.of.rows) return;
  const int64_t first = threadIdx.x % kWarpThreads, S = a.of.S, C = a.of.C;
  const float* p = a.posterior + r * S * C;
  float *d_prior = a.d_prior + r * S * C, *d_posterior = a.d_posterior + r * S * C;
  float sum = 0;
  for (int64_t s = first; s < S; s += kWarpThreads) {
    const int64_t k = s * C;
    mixed_probs(a.of, a.prior + r * S * C + k, a.bias + k, d_prior + k);
    for (int64_t c = k; c < k + C; ++c) {
      d_posterior[c] = logf(p[c]) - logf(d_prior[c]);
      sum += p[c] * d_posterior[c];
    }
  }
  sum = warp_sum(sum);
  if (first == 0) a.divergence[r] = sum;
  const float counts = sum >= a.free ? 1.f : 0.f, floor = a.of.floor();
  for (int64_t k = first * C; k < S * C; k += kWarpThreads * C) {
    float dot = 0;
    for (int64_t c = k; c < k + C; ++c) dot += (d_prior[c] - floor) * p[c] / d_prior[c];
    dot *= a.of.unmixed();
    for (int64_t c = k; c < k + C; ++c) {
      d_posterior[c] = counts * a.to_posterior * (d_posterior[c] + 1.f);
      d_prior[c] = counts * a.to_prior * (d_prior[c] - floor) * (dot - p[c] / d_prior[c]);
    }
  }
}

}  // namespace

int categorical_draw_cuda(const CategoricalDraw& a, void* stream) {
  return launch_kernel(draw, thread_each(a.of.rows * a.of.S, kThreads), stream, a);
}
int categorical_back_cuda(const CategoricalBack& a, void* stream) {
  return launch_kernel(back, thread_each(a.of.rows * a.of.S, kThreads), stream, a);
}
int categorical_divergence_cuda(const CategoricalDivergence& a, void* stream) {
  return launch_kernel(divergence, warp_each(a.of.rows, kWarps), stream, a);
}

}  // namespace maglev
