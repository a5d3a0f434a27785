#pragma once
// The steps of model-predictive path integral control (Williams et al., "Model predictive path
// integral control using covariance variable importance sampling", 2015) between a world model's
// products: sequences drawn, rewards added up, elites chosen, moments taken. For N environment rows
// at once; an environment's numbers are a function of its stream alone.
//
// N environments, S sequences each, of which the first P are the policy's; H steps, A action
// dimensions, E elites. Where a pointer may be f32 or bf16, `bf16` says which.

#include <cmath>
#include <cstdint>

#include "base/core/hd.h"
#include "kernels/noise/noise.h"
#include "kernels/two_hot/two_hot.h"

namespace maglev {

constexpr int64_t kMostMppiSamples = 4096;

/// Where a round begins, and which two value networks each environment uses in each round.
struct MppiBegin {
  NoiseFill pair_noise;     ///< rows N, count I: uniforms
  const float* prev_mean;   ///< [N, H, A]
  const uint8_t* is_first;  ///< [N], 1: prev_mean counts for nothing
  float *mean, *std;        ///< [N, H, A], written
  int64_t* pair;            ///< [I, N, 2], written: first < second
  float max_std;
  int64_t N, H, A, I, num_q;
};

/// Draws the sequences P..S of every environment: clamp(mean + std * normal, -1, 1).
struct MppiSample {
  NoiseFill noise;          ///< rows N, first number of the round: [H][S - P][A]
  const float *mean, *std;  ///< [N, H, A]
  const float* mask;        ///< [N, A], or null: all 1
  float* actions;           ///< [N, H, S, A], sequences P.. written
  void* inputs;             ///< [H, N * (S - P), ld], A columns written from `inputs` on
  bool bf16;
  int64_t ld, N, H, S, P, A;
};

/// Actions of the policy: tanh(mean + normal * std) of its head, or tanh(mean).
struct MppiPolicy {
  NoiseFill noise;    ///< rows N: [R][A]
  const void* head;   ///< [N * R, 2A], or [N, 2A] where the rows of an environment share one
  const float* bias;  ///< [2A], added to the head
  const float* mask;  ///< [N, A], or null
  float* actions;     ///< row r of environment n at n * actions_env + r * A; null: not wanted
  void* inputs;       ///< ... and at n * inputs_env + r * ld, f32 or bf16
  bool bf16, shared, mean;
  float log_std_low, log_std_high;
  int64_t actions_env, inputs_env, ld, N, R, A;
};

/// Whether an episode goes on, along sequences: hard, 0 once a logit is above 0, or soft, the
/// product of 1 - sigmoid(logit).
struct MppiEnd {
  const void* logit;  ///< [N * R], f32 or bf16; null: no termination head
  const float* bias;  ///< [1], added to it
  bool soft;
};
MAGLEV_HD float mppi_going_on(float alive, float logit, bool soft) {
  if (!soft) return logit > 0 ? 0.f : alive;
  return alive / (1.f + expf(logit));
}

/// Adds discount * alive * reward of a step: R rows an environment, sequences from `first` on.
struct MppiReward {
  TwoHotBins bins;
  const void* logits;     ///< [N * R, bins]
  const float* bias;      ///< [bins]
  MppiEnd end;            ///< before the reward: of the latent this step begins at
  const float* discount;  ///< of environment n at n * discount_env
  float *value, *alive;   ///< [N, S]; written, not added to, where `begin`
  bool bf16, begin;
  int64_t discount_env, N, R, S, first;
};

/// total = value + discount * alive * the mean of two networks' values behind the horizon.
struct MppiTotal {
  TwoHotBins bins;
  const void* logits;          ///< [N, 2, S, bins]
  const float* bias;           ///< [bins] of environment n and network k at (2 n + k) * bias_step
  MppiEnd end;                 ///< of the last latent, R = S
  const float* discount;       ///< of environment n at n * discount_env
  const float *value, *alive;  ///< [N, S]
  float* total;                ///< [N, S], written; 0 where it would be no number
  bool bf16;
  int64_t bias_step, discount_env, N, S;
};

/// The E best sequences, best first, their weights exp(temperature * (total - best)) and the
/// weighted moments of their actions. Among equals the earlier comes first.
struct MppiElites {
  const float* total;    ///< [N, S]
  const float* actions;  ///< [N, H, S, A]
  const float* mask;     ///< [N, A], or null
  int64_t* elites;       ///< [N, E], written
  float* scores;         ///< [N, E], written; they sum to 1
  float *mean, *std;     ///< [N, H, A], written
  float temperature, min_std, max_std;
  int64_t N, H, S, A, E;
};

/// The first action of one elite, drawn by its weight, plus noise where wanted, within -1 and 1.
struct MppiChoose {
  NoiseFill gumbel, noise;  ///< rows N: [E] uniforms, [A] normals
  const int64_t* elites;    ///< [N, E]
  const float* scores;      ///< [N, E]
  const float* actions;     ///< [N, H, S, A]
  const float* std;         ///< [N, H, A]
  float* action;            ///< [N, A], written
  bool explore;
  int64_t N, H, S, A, E;
};

void mppi_begin_cpu(const MppiBegin& args);
void mppi_sample_cpu(const MppiSample& args);
void mppi_policy_cpu(const MppiPolicy& args);
void mppi_reward_cpu(const MppiReward& args);
void mppi_total_cpu(const MppiTotal& args);
void mppi_elites_cpu(const MppiElites& args);
void mppi_choose_cpu(const MppiChoose& args);

/// The same on `stream` (a cudaStream_t); return a cudaError_t. S at most kMostMppiSamples. Only in
/// builds with device code.
int mppi_begin_cuda(const MppiBegin& args, void* stream);
int mppi_sample_cuda(const MppiSample& args, void* stream);
int mppi_policy_cuda(const MppiPolicy& args, void* stream);
int mppi_reward_cuda(const MppiReward& args, void* stream);
int mppi_total_cuda(const MppiTotal& args, void* stream);
int mppi_elites_cuda(const MppiElites& args, void* stream);
int mppi_choose_cuda(const MppiChoose& args, void* stream);

}  // namespace maglev
