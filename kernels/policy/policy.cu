#include "base/device/launch.cuh"
#include "kernels/philox/philox.h"
#include "kernels/policy/policy.cuh"
#include "kernels/policy/policy.h"

namespace maglev {
namespace {

constexpr int kThreads = 128;

__device__ float sample_heads(const SampleArgs& args, const DevicePolicy& device,
                              const PhiloxFill& fill, int64_t row) {
  const PolicyPanel& p = args.policy;
  float log_prob = 0.f;
  PhiloxBlock block{};
  for (int64_t h = 0, begin = 0; h < p.head_count; begin += device.heads[h++]) {
    float best = 0.f;
    int64_t chosen = 0;
    for (int64_t k = 0; k < device.heads[h]; ++k) {
      const int64_t column = begin + k;
      float score = masked_logit(p, row, row, column);
      if (!args.mean) {
        if (column % 4 == 0) block = philox_row_block(fill, row, column / 4);
        score -= logf(-logf(open_uniform(block.word[column % 4])));
      }
      if (k == 0 || score > best) best = score, chosen = k;
    }
    args.action_i32[row * p.dims + h] = int32_t(chosen);
    const HeadSoftmax s = head_softmax(p, row, row, begin, device.heads[h]);
    log_prob += (masked_logit(p, row, row, begin + chosen) - s.largest) - s.log_total;
  }
  return log_prob;
}

__device__ float sample_gaussian(const SampleArgs& args, const PhiloxFill& fill, int64_t row) {
  const PolicyPanel& p = args.policy;
  float log_prob = 0.f, radius = 0.f, angle = 0.f;
  for (int64_t i = 0; i < p.dims; ++i) {
    float action = p.logits[i * p.stride + row];
    if (!args.mean) {
      if (i % 2 == 0) {
        const PhiloxBlock block = philox_row_block(fill, row, i / 2);
        radius = sqrtf(-2.f * logf(open_uniform(block.word[0])));
        angle = 6.28318530717958648f * open_uniform(block.word[1]);
      }
      action += expf(p.log_std[i]) * (radius * (i % 2 == 0 ? cosf(angle) : sinf(angle)));
    }
    args.action_f32[row * p.dims + i] = action;
    log_prob += gaussian_log_prob(p, i, gaussian_distance(p, row, i, action));
  }
  return log_prob;
}

__global__ void sample_rows(SampleArgs args, DevicePolicy device) {
  const int64_t row = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= args.policy.rows) return;
  const PhiloxFill fill{args.seed, args.purpose, args.first_row, args.step, args.policy.rows,
                        0,         args.base,    args.index};
  const float log_prob = args.policy.head_count > 0 ? sample_heads(args, device, fill, row)
                                                    : sample_gaussian(args, fill, row);
  if (args.log_prob) args.log_prob[row] = log_prob;
}

__global__ void log_prob_rows(LogProbArgs args, DevicePolicy device) {
  const int64_t row = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= args.policy.rows) return;
  const RowLogProb out = action_log_prob(device, row, row, args.action_i32, args.action_f32);
  args.log_prob[row] = out.log_prob;
  if (args.entropy) args.entropy[row] = out.entropy;
}

}  // namespace

int policy_sample_cuda(const SampleArgs& args, void* stream) {
  if (args.policy.head_count > kMostDeviceHeads) return int(cudaErrorInvalidValue);
  return launch_kernel(sample_rows, thread_each(args.policy.rows, kThreads), stream, args,
                       device_policy(args.policy));
}

int policy_log_prob_cuda(const LogProbArgs& args, void* stream) {
  if (args.policy.head_count > kMostDeviceHeads) return int(cudaErrorInvalidValue);
  return launch_kernel(log_prob_rows, thread_each(args.policy.rows, kThreads), stream, args,
                       device_policy(args.policy));
}

}  // namespace maglev
