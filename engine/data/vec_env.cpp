#include "engine/data/vec_env.h"

#include <cstring>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "base/env/totals.h"
#include "engine/device/device.h"

namespace maglev {
namespace {

// environments a thread takes at once: enough to hide the hand-over, few enough to share
constexpr int64_t kBlock = 64;

}  // namespace

VecEnv::VecEnv(const EnvEntry& entry, const void* params, int64_t N, uint64_t seed,
               at::Device device, ThreadPool& pool, int64_t first_env, int64_t learners)
    : entry_(&entry),
      N_(N),
      seed_(seed),
      first_env_(first_env),
      learners_(learners ? learners : entry.agents),
      pool_(&pool) {
  if (N < 1) throw Error("[env] env.count must be at least 1, got " + std::to_string(N));
  if (device.is_cuda() && !entry.step_cuda)
    throw Error(
        "[env] this build has no device code; use device=cpu, or build where torch has CUDA and "
        "nvcc is there");
  entry.check(params);
  spec_ = entry.spec(params);
  MAGLEV_ASSERT(spec_.observations.size() <= size_t(kMaxObsColumns), "raise kMaxObsColumns");
  MAGLEV_ASSERT(
      learners_ <= entry.agents && (!learners || spec_.action.dims() <= kMaxSplitActionDims),
      "learners are some of the agents");
  MAGLEV_ASSERT(spec_.events.size() <= size_t(kMaxEvents), "raise kMaxEvents");
  auto bytes = at::TensorOptions(at::kByte);
  auto host = at::empty({int64_t(entry.params_bytes)}, bytes);
  std::memcpy(host.data_ptr(), params, entry.params_bytes);
  params_ = host.to(device);
  slots_ = at::zeros({N, int64_t(entry.slot_bytes(params))}, bytes.device(device));
  totals_ = at::zeros({int64_t(sizeof(EpisodeTotals))}, bytes.device(device));
}

EnvBatch VecEnv::batch() const {
  return {.params = params_.data_ptr(),
          .slots = static_cast<std::byte*>(slots_.data_ptr()),
          .slot_bytes = size_t(slots_.size(1)),
          .seed = seed_,
          .first_env = first_env_};
}

void VecEnv::reset(const StepIo& io) {
  if (slots_.is_cuda())
    return check_cuda(entry_->reset_cuda(batch(), io, N_, current_stream()), "env");
  EnvBatch b = batch();
  pool_->run((N_ + kBlock - 1) / kBlock, [&](int64_t i) {
    entry_->reset_cpu(b, io, i * kBlock, std::min(N_, (i + 1) * kBlock));
  });
}

void VecEnv::step(const StepIo& io) {
  if (slots_.is_cuda())
    return check_cuda(entry_->step_cuda(batch(), io, N_, current_stream()), "env");
  EnvBatch b = batch();
  pool_->run((N_ + kBlock - 1) / kBlock, [&](int64_t i) {
    entry_->step_cpu(b, io, i * kBlock, std::min(N_, (i + 1) * kBlock));
  });
}

void VecEnv::step(const StepIo& io, int64_t begin, int64_t end) {
  if (!slots_.is_cuda()) return entry_->step_cpu(batch(), io, begin, end);
  MAGLEV_ASSERT(begin == 0 && end == N_, "a kernel steps all environments");
  check_cuda(entry_->step_cuda(batch(), io, N_, current_stream()), "env");
}

const at::Tensor& VecEnv::totals() {
  if (slots_.is_cpu()) {
    *static_cast<EpisodeTotals*>(totals_.data_ptr()) = take_totals();
    return totals_;
  }
#ifdef MAGLEV_DEVICE_CODE
  check_cuda(take_totals_cuda(batch(), static_cast<EpisodeTotals*>(totals_.data_ptr()), N_,
                              current_stream()),
             "env");
#endif
  return totals_;
}

EpisodeTotals VecEnv::take_totals(int64_t begin, int64_t end) {
  EpisodeTotals totals;
  if (slots_.is_cpu()) {
    entry_->take_totals_cpu(batch(), totals, begin, end);
    return totals;
  }
  // heads come to the host, are added there in order, and go back cleared
  auto heads = slots_.narrow(0, begin, end - begin).narrow(1, 0, int64_t(kSlotHead));
  auto host = heads.cpu().contiguous();
  EnvBatch b = batch();
  b.slots = static_cast<std::byte*>(host.data_ptr());
  b.slot_bytes = kSlotHead;
  entry_->take_totals_cpu(b, totals, 0, end - begin);
  heads.copy_(host);
  return totals;
}

}  // namespace maglev
