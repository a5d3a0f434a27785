#pragma once
// The Env concept: an environment is one header of plain structs with host-device functions. The
// batch runners (batch_cpu.h, batch_cuda.cuh) turn it into N environments on threads and a CUDA
// kernel.
//
// To add one: envs/corridor/corridor.h with `namespace maglev { struct Corridor {...}; }` (the
// folder's name in PascalCase), and nothing else. examples/envs/corridor is a complete one.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/config/options.h"
#include "base/core/hd.h"
#include "base/core/philox.h"
#include "base/env/spec.h"

namespace maglev {

constexpr int kMaxObsColumns = 4;
constexpr int kMaxEvents = 8;

/// The actions of one environment's agents: [agents, dims], one of the two pointers is set.
struct Actions {
  const int32_t* discrete;
  const float* continuous;
};

/// What one step of one environment gives. The runner clears rewards and flags before the call.
struct StepOut {
  float* reward;    ///< [agents]
  bool terminated;  ///< the task ended: no future value
  bool truncated;   ///< cut by a limit: the future still has value; both flags may be true
  float* totals;    ///< [kMaxEvents], the runner's

  /// Adds to counter `event` of spec.events.
  MAGLEV_HD void count(int event, float amount) { totals[event] += amount; }
};

/// Where one agent's observation goes: a row of each column, in the order of spec.observations.
struct ObsOut {
  std::byte* const* columns;
  const int64_t* row_bytes;
  int64_t row;
  uint8_t* mask;  ///< [spec.action.categories()], 1 = allowed; null unless spec.action.masked

  template <class T>
  MAGLEV_HD T* as(int i) const {
    return reinterpret_cast<T*>(columns[i] + row * row_bytes[i]);
  }
};

/// A scripted player: plays one agent of an environment from what that agent observes. Continuous
/// actions.
struct Bot {
  const char* name;
  const char* summary;
  size_t state_bytes;  ///< of what it remembers through an episode; trivially copyable, at most 64
  void (*begin)(void* state, Rng& rng);  ///< at an episode's first observation
  /// `obs` is a row of each observation column; writes `action` [dims].
  void (*act)(void* state, const std::byte* const* obs, Rng& rng, float* action);
};
constexpr size_t kMaxBotState = 64;

/// Agents of an environment: E::kAgents when it has one, else 1.
template <class E>
constexpr int agents_of() {
  if constexpr (requires { E::kAgents; }) return E::kAgents;
  else return 1;
}

/// Bytes of one state: E::state_bytes(params) when the size depends on settings, else
/// sizeof(E::State). A larger state keeps its State first and its own bytes behind it.
template <class E>
size_t state_bytes_of(const typename E::Params& params) {
  if constexpr (requires { E::state_bytes(params); }) return E::state_bytes(params);
  else return sizeof(typename E::State);
}

/// E is an environment:
///   Params   settings, trivially copyable, with `static void describe(OptionTable&, Params&)` and
///            optionally `static void check(const Params&)` that throws Error on settings that
///            contradict; a setting with choices is an enum of int32_t (base/config/choice.h)
///   State    trivially copyable; all an episode needs
///   spec     host: sizes and limits for these settings
///   reset a new episode; step one transition (no auto-reset: the runner does it); observe one
///   agent's row
///   bots   optional, host: `static std::span<const Bot> bots()`, scripted players
/// reset, step and observe are MAGLEV_HD and draw only from the Rng they get.
template <class E>
concept Env = std::is_trivially_copyable_v<typename E::State> &&
    std::is_trivially_copyable_v<typename E::Params> &&
    requires(typename E::Params& params, const typename E::Params& p, typename E::State& s,
             const typename E::State& cs, OptionTable& table, Rng& rng, const Actions& actions,
             StepOut& out, const ObsOut& obs) {
  {E::Params::describe(table, params)};
  { E::spec(p) } -> std::same_as<EnvSpec>;
  {E::reset(p, s, rng)};
  {E::step(p, s, actions, rng, out)};
  {E::observe(p, cs, /*agent=*/0, obs)};
  { E::kSummary } -> std::convertible_to<const char*>;
};

}  // namespace maglev
