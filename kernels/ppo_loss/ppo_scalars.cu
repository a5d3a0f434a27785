#include "base/device/warp.cuh"
#include "kernels/advantage/advantage.cuh"
#include "kernels/ppo_loss/ppo_scalars.h"

namespace maglev {
namespace {

__global__ void begin_update(PpoUpdate update) {
  wait_for_earlier();
  ppo_update(update);
}
// a single chunk needs no launch before this one
__global__ void begin_minibatch(PpoBegin begin, AdvantageArgs rows,
                                const AdvantagePartial* partial) {
  wait_for_earlier();
  const int64_t chunks = advantage_chunks(rows.count);
  const AdvantagePartial all =
      chunks == 1 ? chunk_by_block(rows, nullptr, 0) : join_by_block(partial, chunks);
  if (threadIdx.x != 0) return;
  *begin.statistics = advantage_finish(all);
  ppo_begin(begin);
}
__global__ void end_minibatch(PpoEnd end) {
  wait_for_earlier();
  // a warp's threads share the lanes
  const int thread = int(threadIdx.x);
  __shared__ double sums[kPpoFigures];
  for (int k = 0; k < kPpoFigures; ++k) {
    double sum = 0;
    for (int64_t l = thread; l < end.lanes; l += kWarpThreads)
      sum += end.lane_figures[l * kPpoFigures + k];
    sum = warp_sum(sum);
    if (thread == 0) sums[k] = sum;
  }
  if (thread != 0) return;
  end.lane_figures = sums, end.lanes = 1;
  ppo_end(end);
}
__global__ void report_step(PpoStepReport report) {
  wait_for_earlier();
  ppo_report_step(report);
}
__global__ void report_update(PpoUpdateReport report) {
  wait_for_earlier();
  ppo_report_update(report);
}

}  // namespace

int ppo_update_cuda(const PpoUpdate& update, void* stream) {
  return launch_kernel(begin_update, kOneThread, stream, update);
}

int ppo_begin_cuda(const PpoBegin& begin, const AdvantageArgs& rows, AdvantagePartial* partial,
                   void* stream) {
  if (rows.count > kAdvantageChunk)
    if (const int error = advantage_partials_cuda(rows, partial, stream)) return error;
  return launch_kernel(begin_minibatch, {.block = {kJoinThreads}}, stream, begin, rows, partial);
}

int ppo_end_cuda(const PpoEnd& end, void* stream) {
  return launch_kernel(end_minibatch, {.block = {kWarpThreads}}, stream, end);
}

int ppo_report_step_cuda(const PpoStepReport& report, void* stream) {
  return launch_kernel(report_step, kOneThread, stream, report);
}

int ppo_report_update_cuda(const PpoUpdateReport& report, void* stream) {
  return launch_kernel(report_update, kOneThread, stream, report);
}

}  // namespace maglev
