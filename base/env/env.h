#pragma once
// What an environment is: one header of plain structs with host-device functions. The
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
constexpr int kMaxAgents = 64;

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

/// What a step was to one agent of an environment whose agents end apart.
struct AgentEnd {
  bool terminated, truncated;
  bool waits;  ///< it was not there: its row's step is none, as one that only resets
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

/// What a scripted player goes by at one time step, and where it writes what its agent does.
struct BotTurn {
  const void* params;           ///< the environment's Params
  void* state;                  ///< what it remembers
  const std::byte* const* obs;  ///< a row of each observation column
  Rng& rng;
  int32_t* discrete;  ///< [dims], one of the two is set, as in Actions
  float* continuous;
};

/// A scripted player: plays one agent of an environment from what that agent observes.
struct Bot {
  const char* name;
  const char* summary;
  size_t state_bytes;  ///< of what it remembers through an episode; trivially copyable, at most 64
  void (*begin)(void* state, Rng& rng);  ///< at an episode's first observation; null: nothing to do
  void (*act)(const BotTurn& turn);      ///< writes all dims of the action
};
constexpr size_t kMaxBotState = 64;

/// Agents of an environment: E::kAgents when it has one, else 1.
template <class E>
constexpr int agents_of() {
  if constexpr (requires { E::kAgents; }) return E::kAgents;
  else return 1;
}

/// Whether E's settings say how many agents it has, in EnvSpec::agents: E::kAgentsBySettings.
template <class E>
constexpr bool agents_by_settings() {
  if constexpr (requires { E::kAgentsBySettings; }) return E::kAgentsBySettings;
  else return false;
}

/// As many agents as an environment of E may have.
template <class E>
constexpr int most_agents() {
  return agents_by_settings<E>() ? kMaxAgents : agents_of<E>();
}

/// Whether agents of E may end, or come, while others go on: end_of(params, state, agent), asked
/// behind each step, says what it was to each; StepOut's flags are then the end of all, and of each
/// that played until then, whatever end_of says of it. Rows of agents that wait are marked as those
/// of a step that only resets, and have no reward, until their next observation. Who has ended
/// waits until all have: it does not come back in the same episode.
template <class E>
concept EndsApart = requires(const typename E::Params& p, const typename E::State& s) {
  { E::end_of(p, s, /*agent=*/0) } -> std::same_as<AgentEnd>;
};

/// Bytes of one state in its slot: E::state_bytes(params) when the size depends on settings, else
/// sizeof(E::State). A larger state keeps its State first and its own bytes behind it.
template <class E>
size_t state_bytes_of(const typename E::Params& params) {
  if constexpr (requires { E::state_bytes(params); }) return E::state_bytes(params);
  else return sizeof(typename E::State);
}

/// Whether E has assets: something large that all environments of a batch read and none writes,
/// such as a map or a graph.
template <class E>
concept HasAssets = requires {
  typename E::Assets;
};

/// Bytes of E's assets: E::asset_bytes(params) when the size depends on settings, else
/// sizeof(E::Assets). Larger ones keep their Assets first and their own bytes behind it.
template <class E>
size_t asset_bytes_of(const typename E::Params& params) {
  if constexpr (requires { E::asset_bytes(params); }) return E::asset_bytes(params);
  else return sizeof(typename E::Assets);
}

/// Whether E steps in host memory whatever the run's device: E::kHostOnly.
template <class E>
constexpr bool host_only() {
  if constexpr (requires { E::kHostOnly; }) return E::kHostOnly;
  else return false;
}

/// Whether E shows pictures, one u8 column [H, W, C], with some settings: E::kShowsImages. Then it
/// has the settings env.image.* besides its own (image_view.h).
template <class E>
constexpr bool shows_images() {
  if constexpr (requires { E::kShowsImages; }) return E::kShowsImages;
  else return false;
}

// E is an environment:
//   Params   settings, trivially copyable, with `static void describe(OptionTable&, Params&)` and
//            optionally `static void check(const Params&)` that throws Error on settings that
//            contradict, `static std::string settle(Params&)`: EnvEntry::settle,
//            `static std::string idle(const Params&, std::string_view name)`: EnvEntry::idle, and
//            `static std::vector<std::string> judged_with(const Params&)`: EnvEntry::judged_with
//   State    all an episode needs, trivially copyable
//   spec     host: sizes and limits for these settings
//   reset    a new episode; step: one transition (no auto-reset: the runner does it); observe: one
//            agent's row
//   Assets   optional, trivially copyable: what all environments share. `make_assets(params,
//            assets)`, host, writes them once into zeroed memory aligned to 64 bytes, without
//            pointers, for they are copied to a device; throws Error when it cannot. The functions
//            above then take them behind params
//   valid    optional, host: whether an episode could have led to a state; asked of one that was
//            read from a file, after which step trusts what it indexes with. A zeroed state, of
//            which no episode has begun, is valid
//   held_bytes  optional, host: `static size_t held_bytes(const Params&)`: EnvEntry::held_bytes
//   program_bytes  optional, host: `static size_t program_bytes(const Params&, int64_t count)`:
//            EnvEntry::program_bytes
//   bots     optional, host: `static std::span<const Bot> bots()`, scripted players
//   paint    optional, host: a picture of a state
//   end_idle optional, host: EnvEntry::end_idle
//   kAgents  optional: agents of each environment, up to kMaxAgents; 1 where it is left out. With
//            kAgentsBySettings spec says how many, in EnvSpec::agents
//   end_of   optional, MAGLEV_HD: agents end apart, see EndsApart
// reset, step and observe are MAGLEV_HD and draw only from the Rng they get. With `kHostOnly` they
// are plain functions, may lie in sources of their own and use libraries, and State is any type
// that is made without arguments: see HostOnlyState. Those whose work is done elsewhere, in another
// process, may begin it ahead: see BeginsAhead.

/// What every environment has.
template <class E>
concept EnvDescription = std::is_trivially_copyable_v<typename E::Params> &&
    requires(typename E::Params& params, const typename E::Params& p, OptionTable& table) {
  {E::Params::describe(table, params)};
  { E::spec(p) } -> std::same_as<EnvSpec>;
  { E::kSummary } -> std::convertible_to<const char*>;
};

/// Its functions, with `Assets` behind params where there are any.
template <class E, class... Assets>
concept EnvFunctions = requires(const typename E::Params& p, Assets... assets, typename E::State& s,
                                const typename E::State& cs, Rng& rng, const Actions& actions,
                                StepOut& out, const ObsOut& obs) {
  {E::reset(p, assets..., s, rng)};
  {E::step(p, assets..., s, actions, rng, out)};
  {E::observe(p, assets..., cs, /*agent=*/0, obs)};
};

template <class E>
concept EnvAssets = std::is_trivially_copyable_v<typename E::Assets> &&
    requires(const typename E::Params& p, typename E::Assets& assets) {
  {E::make_assets(p, assets)};
};

/// A state as bytes of its slot.
template <class E>
concept PlainState = std::is_trivially_copyable_v<typename E::State>;

/// A state that lives outside its slot and is saved as E::state_bytes(params) bytes of it, zeroed
/// before. load makes the state that was saved; false: the bytes are none.
template <class E>
concept HostOnlyState = std::default_initializable<typename E::State> &&
    requires(const typename E::Params& p, typename E::State& s, const typename E::State& cs,
             std::byte* to, const std::byte* from) {
  { E::state_bytes(p) } -> std::convertible_to<size_t>;
  {E::save(p, cs, to)};
  { E::load(p, s, from) } -> std::same_as<bool>;
};

/// Whether E's resets and steps begin before they are waited for, so that those of a block run at
/// once elsewhere: begin_reset(params, state, rng) and begin_step(params, state, actions) are called
/// for all environments of a block, then reset and step for each, which take what was begun. What
/// has begun and was not taken is not begun again. send_begun(params, state) has all that has begun
/// so far run, where nothing is waited for yet.
template <class E>
concept BeginsAhead = HostOnlyState<E> &&
    requires(const typename E::Params& p, typename E::State& s, Rng& rng, const Actions& actions) {
  {E::begin_reset(p, s, rng)};
  {E::begin_step(p, s, actions)};
  {E::send_begun(p, s)};
};

/// Fails to compile, naming what E lacks.
template <class E>
constexpr void expect_environment() {
  static_assert(EnvDescription<E>);
  if constexpr (HasAssets<E>) {
    static_assert(EnvAssets<E>);
    static_assert(EnvFunctions<E, const typename E::Assets&>);
  } else {
    static_assert(EnvFunctions<E>);
  }
  if constexpr (host_only<E>()) static_assert(HostOnlyState<E>);
  else static_assert(PlainState<E>);
  static_assert(!BeginsAhead<E> || !HasAssets<E>,
                "begin_reset and begin_step are for environments without assets");
  static_assert(agents_of<E>() >= 1 && agents_of<E>() <= kMaxAgents);
  static_assert(!shows_images<E>() || agents_of<E>() == 1,
                "kShowsImages, and with it env.image.*, is for environments of one agent");
}

}  // namespace maglev
