#include "base/env/host_batch.h"

#include <cstring>
#include <string>

#include "base/core/error.h"

namespace maglev {

LiveStates make_live_states(const EnvEntry& entry, int64_t count) {
  if (!entry.host_only) return {nullptr, [](void*) {}};
  return {entry.make_states(count), entry.free_states};
}

HostBatch::HostBatch(const EnvEntry& entry, const void* params, int64_t count, uint64_t seed,
                     int64_t first_env)
    : entry_(&entry), count_(count), states_(nullptr, [](void*) {}) {
  const auto lines = [](size_t bytes) { return (bytes + sizeof(Line) - 1) / sizeof(Line); };
  entry.check(params);
  params_.resize(lines(entry.params_bytes));
  std::memcpy(params_.data(), params, entry.params_bytes);
  assets_.resize(lines(entry.asset_bytes(params)));
  entry.make_assets(params, reinterpret_cast<std::byte*>(assets_.data()));
  slots_.resize(size_t(count) * lines(entry.slot_bytes(params)));
  states_ = make_live_states(entry, count);
  batch_ = {.params = params_.data(),
            .slots = reinterpret_cast<std::byte*>(slots_.data()),
            .slot_bytes = entry.slot_bytes(params),
            .seed = seed,
            .first_env = first_env,
            .assets = assets_.empty() ? nullptr : assets_.data(),
            .states = states_.get(),
            .view = entry.view(params),
            .agents = entry.spec(params).agents};
}

std::vector<std::byte> HostBatch::save() const {
  entry_->save_states(batch_, 0, count_);
  return {batch_.slots, batch_.slots + size_t(count_) * batch_.slot_bytes};
}

void HostBatch::load(const std::vector<std::byte>& slots) {
  MAGLEV_ASSERT(slots.size() == size_t(count_) * batch_.slot_bytes, "as many slots as were saved");
  std::memcpy(batch_.slots, slots.data(), slots.size());
  const int64_t loaded = entry_->load_states(batch_, 0, count_);
  if (loaded < count_) refuse_state(*entry_, loaded);
}

void refuse_state(const EnvEntry& entry, int64_t i) {
  throw Error("[env] the saved state of environment " + std::to_string(i) + " is none that " +
              entry.name + " can be in; use an earlier checkpoint, or start anew");
}

}  // namespace maglev
