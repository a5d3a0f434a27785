#include "base/device/launch.cuh"
#include "kernels/policy/policy.cuh"
#include "kernels/policy/policy.h"

namespace maglev {
namespace {

constexpr int kThreads = 128;

__global__ void sample_rows(SampleArgs args, DevicePolicy device) {
  wait_for_earlier();
  const int64_t row = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= args.policy.rows) return;
  sample_row(args, device, row, row);
}

__global__ void log_prob_rows(LogProbArgs args, DevicePolicy device) {
  wait_for_earlier();
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
