#pragma once
// Drawing actions from a policy, and the probability of given ones: categorical heads with masks or
// a diagonal Gaussian, over panels. The log-probability of a draw and the one computed later for
// the same logits and action are equal to the bit.

#include <cstdint>

#include "base/core/philox.h"
#include "base/simd/panel.h"

namespace maglev {

/// The largest of logits plus Gumbel noise is a draw from their softmax; the Gaussian's normals are
/// Box-Muller's. Row r draws from Philox stream (purpose, its index) at `step`: the numbers of
/// philox_uniform_cpu and philox_normal_cpu.
struct SampleArgs {
  PolicyPanel policy;
  uint64_t seed;
  Purpose purpose;
  int64_t first_row;    ///< index of row 0 in the whole run; those behind follow it
  int64_t step;         ///< below 2^48 with *base
  const int64_t* base;  ///< added to step where not null; where the kernel runs
  bool mean;            ///< the most likely category, or the mean, instead of a draw
  int32_t* action_i32;  ///< [rows, dims] row-major, written where there are heads
  float* action_f32;    ///< [rows, dims] row-major, written for the Gaussian
  float* log_prob;      ///< [rows], written, or null; summed over heads or dimensions
  /// [rows] the index of each row, in place of first_row + r; null: those. Where the kernel runs.
  const int64_t* index = nullptr;
  /// Noise is multiplied by it: a draw from the softmax of logits / temperature, or by deviations
  /// times as large. log_prob stays the policy's own.
  float temperature = 1;
};
void policy_sample_cpu(const SampleArgs& args);
/// On `stream` (a cudaStream_t) for any number of rows and at most kMostDeviceHeads heads; pointers
/// are to device memory, but `heads` is in the host's. Returns a cudaError_t. Only in builds with
/// device code.
int policy_sample_cuda(const SampleArgs& args, void* stream);

struct LogProbArgs {
  PolicyPanel policy;
  const int32_t* action_i32;  ///< [rows, dims] row-major, with heads
  const float* action_f32;    ///< [rows, dims] row-major, Gaussian
  float* log_prob;            ///< [rows], written; summed over heads or dimensions
  float* entropy;             ///< [rows], written, or null; an excluded category counts 0
};
void policy_log_prob_cpu(const LogProbArgs& args);
/// As policy_sample_cuda.
int policy_log_prob_cuda(const LogProbArgs& args, void* stream);

}  // namespace maglev
