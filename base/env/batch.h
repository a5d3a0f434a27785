#pragma once
// One slot's reset and step, shared to the letter by the CPU loop and the CUDA kernel: auto-reset,
// time accounting, totals and the placing of rows live here once.

#include "base/env/entry.h"

namespace maglev {

MAGLEV_HD SlotHead& head_of(const EnvBatch& batch, int64_t i) {
  return *reinterpret_cast<SlotHead*>(batch.slots + size_t(i) * batch.slot_bytes);
}

template <class E>
MAGLEV_HD typename E::State& state_of(const EnvBatch& batch, int64_t i) {
  if constexpr (host_only<E>()) return static_cast<typename E::State*>(batch.states)[i];
  else
    return *reinterpret_cast<typename E::State*>(batch.slots + size_t(i) * batch.slot_bytes +
                                                 kSlotHead);
}

template <class E>
MAGLEV_HD const typename E::Params& params_of(const EnvBatch& batch) {
  return *static_cast<const typename E::Params*>(batch.params);
}

template <class E>
MAGLEV_HD const auto& assets_of(const EnvBatch& batch) {
  return *static_cast<const typename E::Assets*>(batch.assets);
}

/// Agents of each environment.
template <class E>
MAGLEV_HD int agents_of([[maybe_unused]] const EnvBatch& batch) {
  if constexpr (agents_by_settings<E>()) return batch.agents;
  else return agents_of<E>();
}

/// The columns that hold the row of agent `agent` of slot i, and which row it is.
struct AgentRow {
  const StepColumns* columns;
  int64_t row;
};
template <class E>
MAGLEV_HD AgentRow agent_row(const EnvBatch& batch, const StepIo& io, int64_t i, int agent) {
  const int agents = agents_of<E>(batch);
  const int learners = io.learners ? io.learners : agents;
  if (agent < learners) return {&io, i * learners + agent};
  return {&io.rivals, i * (agents - learners) + agent - learners};
}

/// Where agents' actions are brought side by side.
template <class E>
struct ActionRoom {
  int32_t discrete[most_agents<E>() * kMaxSplitActionDims];
  float continuous[most_agents<E>() * kMaxSplitActionDims];
};

/// The actions of slot i's agents, side by side: where they lie, or in `room`.
template <class E>
MAGLEV_HD Actions actions_of(const EnvBatch& batch, const StepIo& io, int64_t i,
                             [[maybe_unused]] ActionRoom<E>& room) {
  const int agents = agents_of<E>(batch);
  const int64_t dims = io.action_dims;
  if constexpr (most_agents<E>() > 1) {
    if (io.learners) {
      for (int a = 0; a < agents; ++a) {
        const auto [columns, row] = agent_row<E>(batch, io, i, a);
        for (int64_t k = 0; k < dims; ++k) {
          if (io.action_i32) room.discrete[a * dims + k] = columns->action_i32[row * dims + k];
          else room.continuous[a * dims + k] = columns->action_f32[row * dims + k];
        }
      }
      return io.action_i32 ? Actions{room.discrete, nullptr} : Actions{nullptr, room.continuous};
    }
  }
  return {io.action_i32 ? io.action_i32 + i * agents * dims : nullptr,
          io.action_f32 ? io.action_f32 + i * agents * dims : nullptr};
}

/// Writes the observation rows of slot i at row t+1.
template <class E>
MAGLEV_HD void observe_slot(const EnvBatch& batch, const typename E::State& state, const StepIo& io,
                            int64_t i, uint8_t first) {
  const int agents = agents_of<E>(batch);
  const auto& params = params_of<E>(batch);
  for (int a = 0; a < agents; ++a) {
    const auto [columns, row] = agent_row<E>(batch, io, i, a);
    const ObsOut out{columns->obs, io.obs_row_bytes, row,
                     columns->mask ? columns->mask + row * io.mask_width : nullptr};
    if constexpr (HasAssets<E>) E::observe(params, assets_of<E>(batch), state, a, out);
    else E::observe(params, state, a, out);
    columns->is_first[row] = first;
  }
}

/// What slot i draws from.
MAGLEV_HD uint64_t env_stream(const EnvBatch& batch, int64_t i) {
  return stream_id(Purpose::env, uint64_t(batch.first_env + i));
}
MAGLEV_HD Rng rng_of(const EnvBatch& batch, int64_t i) {
  return {batch.seed, env_stream(batch, i), head_of(batch, i).rng_counter};
}

template <class E>
MAGLEV_HD void begin_episode(const EnvBatch& batch, SlotHead& head, typename E::State& state,
                             int64_t i) {
  const auto& params = params_of<E>(batch);
  Rng rng = rng_of(batch, i);
  if constexpr (HasAssets<E>) E::reset(params, assets_of<E>(batch), state, rng);
  else E::reset(params, state, rng);
  head.rng_counter = rng.counter();
  head.needs_reset = 0;
  head.episode_return = 0;
  head.episode_length = 0;
}

template <class E>
MAGLEV_HD void reset_slot(const EnvBatch& batch, const StepIo& io, int64_t i) {
  auto& head = head_of(batch, i);
  head = SlotHead{};
  auto& state = state_of<E>(batch, i);
  begin_episode<E>(batch, head, state, i);
  observe_slot<E>(batch, state, io, i, 1);
}

/// What the last step was to an agent, by what it was to all. Who waits has no end in it, and who
/// plays until all end ends with them.
template <class E>
MAGLEV_HD AgentEnd end_of_agent([[maybe_unused]] const typename E::Params& params,
                                [[maybe_unused]] const typename E::State& state, const StepOut& out,
                                [[maybe_unused]] int agent) {
  if constexpr (EndsApart<E>) {
    const AgentEnd own = E::end_of(params, state, agent);
    if (own.waits) return {false, false, true};
    if (own.terminated | own.truncated) return own;
  }
  return {out.terminated, out.truncated, false};
}

template <class E>
MAGLEV_HD void step_slot(const EnvBatch& batch, const StepIo& io, int64_t i) {
  const int agents = agents_of<E>(batch);
  const auto& params = params_of<E>(batch);
  auto& head = head_of(batch, i);
  auto& state = state_of<E>(batch, i);

  if (head.needs_reset) [[unlikely]] {
    begin_episode<E>(batch, head, state, i);
    for (int a = 0; a < agents; ++a) {
      const auto [columns, row] = agent_row<E>(batch, io, i, a);
      columns->reward[row] = 0.f;
      columns->terminated[row] = columns->truncated[row] = 0;
    }
    observe_slot<E>(batch, state, io, i, 1);
    return;
  }

  Rng rng = rng_of(batch, i);
  ActionRoom<E> room;
  const Actions actions = actions_of<E>(batch, io, i, room);
  float reward[most_agents<E>()] = {};
  StepOut out{reward, false, false, head.events};
  if constexpr (HasAssets<E>) E::step(params, assets_of<E>(batch), state, actions, rng, out);
  else E::step(params, state, actions, rng, out);
  head.rng_counter = rng.counter();

  head.steps += 1;
  for (int a = 0; a < agents; ++a) {
    const AgentEnd end = end_of_agent<E>(params, state, out, a);
    const auto [columns, row] = agent_row<E>(batch, io, i, a);
    columns->reward[row] = end.waits ? 0.f : reward[a];
    columns->terminated[row] = end.terminated;
    columns->truncated[row] = end.truncated;
  }
  if (out.terminated | out.truncated) head.needs_reset = 1;
  // episodes are counted as the first agent has them
  const AgentEnd first = end_of_agent<E>(params, state, out, 0);
  if (!first.waits) {
    head.episode_length += 1;
    head.episode_return += reward[0];
  }
  if (first.terminated | first.truncated) [[unlikely]] {
    float r = head.episode_return;
    head.return_min = head.episodes == 0 || r < head.return_min ? r : head.return_min;
    head.return_max = head.episodes == 0 || r > head.return_max ? r : head.return_max;
    head.return_sum += r;
    head.length_sum += head.episode_length;
    head.episodes += 1;
  }
  // the row after an episode's last holds its final observation
  observe_slot<E>(batch, state, io, i, 0);
  if constexpr (EndsApart<E>)
    for (int a = 0; a < agents; ++a) {
      const auto [columns, row] = agent_row<E>(batch, io, i, a);
      columns->is_first[row] = end_of_agent<E>(params, state, out, a).waits;
    }
}

/// One slot's totals, which it begins anew.
MAGLEV_HD EpisodeTotals take_slot_totals(SlotHead& head) {
  EpisodeTotals taken{.return_sum = head.return_sum,
                      .length_sum = head.length_sum,
                      .return_min = head.return_min,
                      .return_max = head.return_max,
                      .episodes = head.episodes,
                      .steps = head.steps};
  head.return_sum = head.length_sum = 0;
  head.episodes = head.steps = 0;
  for (int k = 0; k < kMaxEvents; ++k) {
    taken.events[k] = head.events[k];
    head.events[k] = 0;
  }
  return taken;
}

}  // namespace maglev
