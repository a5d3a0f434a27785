#include "engine/data/vec_env.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "base/core/hash.h"
#include "base/env/check_spec.h"
#include "base/env/totals.h"
#include "base/trace/span.h"
#include "engine/device/device.h"
#include "engine/device/launch.h"

namespace maglev {
namespace {

// work(first, last) for environments [begin, end), in ranges of as many as are best stepped at once
template <class Work>
void for_ranges(ThreadPool& pool, const EnvEntry& entry, int64_t begin, int64_t end,
                const Work& work) {
  const int64_t range = entry.at_once, N = end - begin;
  pool.run((N + range - 1) / range,
           [&](int64_t i) { work(begin + i * range, begin + std::min(N, (i + 1) * range)); });
}

}  // namespace

at::Tensor assets_made(const EnvEntry& entry, const void* params) {
  const size_t bytes = entry.asset_bytes(params);
  if (bytes == 0) return {};
  at::Tensor made = at::zeros({int64_t(bytes)}, at::TensorOptions(at::kByte));
  entry.make_assets(params, static_cast<std::byte*>(made.data_ptr()));
  return made;
}

std::string assets_hash(const at::Tensor& assets) {
  if (!assets.defined()) return "";
  return hash_of(
      std::span(static_cast<const std::byte*>(assets.const_data_ptr()), assets.nbytes()));
}

VecEnv::VecEnv(const EnvEntry& entry, const void* params, int64_t N, uint64_t seed,
               at::Device device, ThreadPool& pool, int64_t first_env, int64_t learners,
               int64_t host_blocks)
    : entry_(&entry),
      N_(N),
      seed_(seed),
      first_env_(first_env),
      on_device_(device.is_cuda() && !entry.host_only),
      pool_(&pool),
      states_(nullptr, [](void*) {}) {
  if (N < 1) throw Error("[env] env.count must be at least 1, got " + std::to_string(N));
  if (!has_kernels_for(device)) refuse_device("env", device);
  entry.check(params);
  spec_ = entry.spec(params);
  view_ = entry.view(params);
  check_spec(spec_, entry.name);
  learners_ = learners ? learners : spec_.agents;
  MAGLEV_ASSERT(
      learners_ <= spec_.agents && (!learners || spec_.action.dims() <= kMaxSplitActionDims),
      "learners are some of the agents");
  // where environments step: the run's device, unless they only know the host
  const at::Device where = entry.host_only ? at::Device(at::kCPU) : device;
  const auto bytes = at::TensorOptions(at::kByte);
  auto host = at::empty({int64_t(entry.params_bytes)}, bytes);
  std::memcpy(host.data_ptr(), params, entry.params_bytes);
  params_ = host.to(where);
  if (const at::Tensor made = assets_made(entry, params); made.defined()) {
    assets_hash_ = assets_hash(made);
    assets_ = made.to(where);
  }
  slots_ = at::zeros({N, int64_t(entry.slot_bytes(params))}, bytes.device(where));
  states_ = make_live_states(entry, N);
  block_ = N;
  if (where != device) {
    block_ = (N + host_blocks - 1) / host_blocks;
    columns_ = std::make_unique<HostColumns>(spec_, rows(), block_ * learners_,
                                             N_ * (spec_.agents - learners_), device);
    begun_.resize(size_t((N + block_ - 1) / block_));
    if (begun_.size() > 1 && !entry.begin_cpu) stepper_ = std::make_unique<Background>("env steps");
  }
  const int64_t size_of_totals = sizeof(EpisodeTotals);
  totals_ = at::zeros({size_of_totals}, bytes.device(device));
  if (on_device_)
    partial_totals_ = at::empty({totals_parts(N), size_of_totals}, bytes.device(device));
}

EnvBatch VecEnv::batch() const {
  return {.params = params_.data_ptr(),
          .slots = static_cast<std::byte*>(slots_.data_ptr()),
          .slot_bytes = size_t(slots_.size(1)),
          .seed = seed_,
          .first_env = first_env_,
          .assets = assets_.defined() ? assets_.data_ptr() : nullptr,
          .states = states_.get(),
          .view = view_,
          .agents = spec_.agents};
}

void VecEnv::reset(const StepIo& io) {
  if (on_device_) return check_cuda(entry_->reset_cuda(batch(), io, N_, current_stream()), "env");
  const EnvBatch b = batch();
  // a step's copies may still read what is written here
  if (columns_) wait_for_stream();
  for (int64_t first = 0; first < N_; first += block_) {
    const int64_t block = first / block_;
    const StepIo& on_host = columns_ ? columns_->of(io, block) : io;
    for_ranges(*pool_, *entry_, first, std::min(N_, first + block_),
               [&](int64_t begin, int64_t end) { entry_->reset_cpu(b, on_host, begin, end); });
    if (columns_) columns_->send(io, block, HostColumns::Part::observed);
  }
}

void VecEnv::step_on_host(const StepIo& io, int64_t begin, int64_t end) {
  const EnvBatch b = batch();
  for_ranges(*pool_, *entry_, begin, end,
             [&](int64_t first, int64_t last) { entry_->step_cpu(b, io, first, last); });
}

void VecEnv::step(const StepIo& io) {
  if (on_device_) return check_cuda(entry_->step_cuda(batch(), io, N_, current_stream()), "env");
  if (!columns_) return step_on_host(io, 0, N_);
  for (int64_t first = 0; first < N_; first += block_)
    step(io, first, std::min(N_, first + block_));
}

void VecEnv::step(const StepIo& io, int64_t begin, int64_t end) {
  if (on_device_) {
    MAGLEV_ASSERT(begin == 0 && end == N_, "kernels step all environments at once");
    return step(io);
  }
  if (!columns_) return entry_->step_cpu(batch(), io, begin, end);
  const int64_t block = begin / block_;
  MAGLEV_ASSERT(begin % block_ == 0 && end == std::min(N_, begin + block_), "blocks step whole");
  // taken, also where it fails
  const StepIo* begun = std::exchange(begun_[size_t(block)], nullptr);
  if (!begun) step_on_host(columns_->bring_actions(io, block), begin, end);
  else if (!stepper_) step_on_host(*begun, begin, end);
  else if (beside_ == block) wait_for_stepper();
  // else: it was waited for as the next block began
  columns_->send(io, block, HostColumns::Part::all);
}

void VecEnv::wait_for_stepper() {
  const auto span = trace::wait("steps", "pool");
  beside_ = -1;
  stepper_->wait();
}

void VecEnv::begin_step(const StepIo& io, int64_t begin, int64_t end) {
  if (!columns_) {
    if (entry_->begin_cpu) entry_->begin_cpu(batch(), io, begin, end);
    return;
  }
  const int64_t block = begin / block_;
  const StepIo& on_host = columns_->bring_actions(io, block);
  // who begins another one takes the one before next: nothing is lost by waiting for it here
  if (beside_ >= 0) wait_for_stepper();
  if (entry_->begin_cpu) entry_->begin_cpu(batch(), on_host, begin, end);
  else if (!stepper_) return;
  begun_[size_t(block)] = &on_host;
  if (!stepper_) return;
  beside_ = block, next_ = {&on_host, begin, end};
  stepper_->start([this] { step_on_host(*next_.io, next_.begin, next_.end); });
}

void VecEnv::visit_state(StateVisitor& visitor) {
  std::string assets = assets_hash_;
  if (!assets.empty()) visitor.text("assets", assets);
  if (assets != assets_hash_)
    throw Error("[env] " + std::string(entry_->name) +
                " has other assets than the run was saved with (hash " + assets_hash_ + ", saved " +
                assets + "); bring back the files and settings they were made from");
  if (!visitor.loads() && entry_->host_only) entry_->save_states(batch(), 0, N_);
  visitor.rows("slots", slots_);
  if (visitor.loads()) expect_valid_slots();
}

VecEnv::OnHost VecEnv::on_host() const {
  OnHost host{.params = params_, .assets = assets_, .slots = slots_, .batch = batch()};
  if (!slots_.is_cuda()) return host;
  host.params = params_.cpu(), host.slots = slots_.cpu();
  host.batch.params = host.params.data_ptr();
  host.batch.slots = static_cast<std::byte*>(host.slots.data_ptr());
  if (assets_.defined()) {
    host.assets = assets_.cpu();
    host.batch.assets = host.assets.data_ptr();
  }
  return host;
}

void VecEnv::expect_valid_slots() {
  const int64_t loaded = entry_->load_states(on_host().batch, 0, N_);
  if (loaded < N_) refuse_state(*entry_, loaded);
}

void VecEnv::paint(int64_t i, Canvas& canvas) const { entry_->paint(on_host().batch, i, canvas); }

const at::Tensor& VecEnv::totals() {
  if (slots_.is_cpu()) {
    const EpisodeTotals taken = take_totals();
    if (totals_.is_cpu()) *static_cast<EpisodeTotals*>(totals_.data_ptr()) = taken;
    else
      totals_.copy_(at::from_blob(const_cast<EpisodeTotals*>(&taken), totals_.sizes(), at::kByte));
    return totals_;
  }
  const auto nowhere = [](const EnvBatch&, EpisodeTotals*, EpisodeTotals*, int64_t) {};
  launch<take_totals_cuda>("take_totals", slots_.device(), nowhere, batch(),
                           static_cast<EpisodeTotals*>(partial_totals_.data_ptr()),
                           static_cast<EpisodeTotals*>(totals_.data_ptr()), N_);
  return totals_;
}

at::Tensor VecEnv::take_events() {
  const auto events =
      slots_.narrow(1, offsetof(SlotHead, events), int64_t(sizeof(float) * spec_.events.size()))
          .view(at::kFloat);
  at::Tensor taken = events.clone(at::MemoryFormat::Contiguous);
  events.zero_();
  return taken;
}

std::vector<RunningEpisode> VecEnv::running_episodes() const {
  const at::Tensor slots = slots_.cpu();
  std::vector<RunningEpisode> episodes;
  for (int64_t i = 0; i < N_; ++i) {
    const auto& head = *static_cast<const SlotHead*>(slots[i].const_data_ptr());
    episodes.push_back(
        {.episode_return = double(head.episode_return), .length = head.episode_length});
  }
  return episodes;
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
