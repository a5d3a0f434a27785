#pragma once
// N environments of one table row on the host, with plain vectors: what tests and measurements
// drive without torch. Holds one row of everything; a step overwrites it.

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/env/batch.h"
#include "base/env/check_spec.h"
#include "base/env/host_batch.h"

namespace maglev {

class HostEnvs {
 public:
  /// `settings` are env.* settings without the prefix. Throws Error on bad ones, as a run would.
  HostEnvs(const EnvEntry& env, int64_t count, uint64_t seed,
           const std::vector<std::pair<std::string, std::string>>& settings = {},
           int64_t first_env = 0)
      : env_(env),
        count_(count),
        memory_(env, params_with(env, settings).data(), count, seed, first_env) {
    spec_ = env.spec(batch().params);
    check_spec(spec_, env.name);
    rows_ = count * spec_.agents;
    obs_.resize(spec_.observations.size());
    for (size_t c = 0; c < obs_.size(); ++c) {
      io_.obs_row_bytes[c] = spec_.observations[c].row_bytes();
      obs_[c].resize(size_t(rows_ * io_.obs_row_bytes[c]));
      io_.obs[c] = obs_[c].data();
    }
    io_.action_dims = spec_.action.dims();
    actions_i32.resize(spec_.action.discrete() ? size_t(rows_ * io_.action_dims) : 0);
    actions_f32.resize(spec_.action.discrete() ? 0 : size_t(rows_ * io_.action_dims));
    io_.action_i32 = spec_.action.discrete() ? actions_i32.data() : nullptr;
    io_.action_f32 = spec_.action.discrete() ? nullptr : actions_f32.data();
    if (spec_.action.masked) {
      io_.mask_width = spec_.action.categories();
      mask.resize(size_t(rows_ * io_.mask_width));
      io_.mask = mask.data();
    }
    reward.resize(size_t(rows_));
    terminated.resize(size_t(rows_));
    truncated.resize(size_t(rows_));
    is_first.resize(size_t(rows_));
    io_.reward = reward.data();
    io_.terminated = terminated.data();
    io_.truncated = truncated.data();
    io_.is_first = is_first.data();
  }
  HostEnvs(const HostEnvs&) = delete;
  HostEnvs& operator=(const HostEnvs&) = delete;

  void reset() {
    env_.reset_cpu(batch(), io_, 0, count_);
    std::fill(reward.begin(), reward.end(), 0.f);
    std::fill(terminated.begin(), terminated.end(), uint8_t(0));
    std::fill(truncated.begin(), truncated.end(), uint8_t(0));
  }
  void step() { env_.step_cpu(batch(), io_, 0, count_); }
  void step(int64_t begin, int64_t end) { env_.step_cpu(batch(), io_, begin, end); }
  /// All slots as a checkpoint holds them, and back. Throws Error on a state that is none.
  std::vector<std::byte> save() const { return memory_.save(); }
  void load(const std::vector<std::byte>& slots) { memory_.load(slots); }
  EpisodeTotals take_totals() {
    EpisodeTotals totals;
    env_.take_totals_cpu(batch(), totals, 0, count_);
    return totals;
  }

  /// Every action drawn evenly over its range, only allowed ones where the environment masks.
  void random_actions(Rng& rng) {
    for (int64_t row = 0; row < rows_; ++row) {
      int64_t offset = 0;
      for (int64_t d = 0; d < io_.action_dims; ++d) {
        if (!spec_.action.discrete()) {
          actions_f32[size_t(row * io_.action_dims + d)] =
              rng.uniform(spec_.action.low[size_t(d)], spec_.action.high[size_t(d)]);
          continue;
        }
        const int64_t categories = spec_.action.heads[size_t(d)];
        int32_t a = int32_t(rng.below(uint32_t(categories)));
        const uint8_t* allowed = io_.mask ? io_.mask + row * io_.mask_width + offset : nullptr;
        if (allowed && std::all_of(allowed, allowed + categories, [](uint8_t m) { return m == 0; }))
          throw Error("[" + std::string(env_.name) + "] its mask allows no category of head " +
                      std::to_string(d) + " in row " + std::to_string(row));
        while (allowed && !allowed[a]) a = int32_t((a + 1) % categories);
        actions_i32[size_t(row * io_.action_dims + d)] = a;
        offset += categories;
      }
    }
  }

  template <class T>
  const T* obs(int column, int64_t row) const {
    return reinterpret_cast<const T*>(obs_[size_t(column)].data() +
                                      row * io_.obs_row_bytes[column]);
  }
  /// The state of environment i, for tests that place it.
  std::byte* slot(int64_t i) const { return batch().slots + size_t(i) * batch().slot_bytes; }
  template <class E>
  typename E::State& state(int64_t i) {
    return state_of<E>(batch(), i);
  }

  /// FNV-1a over everything a step writes, continuing from `hash`.
  uint64_t hash(uint64_t hash = 14695981039346656037ull) const {
    auto add = [&hash](const void* data, size_t bytes) {
      for (size_t i = 0; i < bytes; ++i)
        hash = (hash ^ uint64_t(static_cast<const uint8_t*>(data)[i])) * 1099511628211ull;
    };
    for (const auto& column : obs_) add(column.data(), column.size());
    add(mask.data(), mask.size());
    add(reward.data(), reward.size() * sizeof(float));
    add(terminated.data(), terminated.size());
    add(truncated.data(), truncated.size());
    add(is_first.data(), is_first.size());
    return hash;
  }

  const EnvEntry& entry() const { return env_; }
  const EnvSpec& spec() const { return spec_; }
  const EnvBatch& batch() const { return memory_.batch(); }
  const StepIo& io() const { return io_; }
  int64_t count() const { return count_; }
  int64_t rows() const { return rows_; }
  size_t params_bytes() const { return env_.params_bytes; }

  std::vector<int32_t> actions_i32;
  std::vector<float> actions_f32;
  std::vector<float> reward;
  std::vector<uint8_t> terminated, truncated, is_first, mask;

 private:
  static std::vector<std::max_align_t> params_with(
      const EnvEntry& env, const std::vector<std::pair<std::string, std::string>>& settings) {
    std::vector<std::max_align_t> params(env.params_bytes / sizeof(std::max_align_t) + 1);
    env.make_params(params.data());
    OptionTable table;
    env.describe(table, params.data());
    for (const auto& [name, value] : settings) table.set(name, value);
    return params;
  }

  const EnvEntry& env_;
  int64_t count_, rows_ = 0;
  HostBatch memory_;
  EnvSpec spec_;
  std::vector<std::vector<std::byte>> obs_;
  StepIo io_{};
};

}  // namespace maglev
