#pragma once
// Makes the EnvEntry of an environment from its struct. CMake compiles one file per environment
// folder that includes this and the environment's header.

#include <cstring>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

#include "base/env/batch.h"

namespace maglev {

/// Work that is done elsewhere begins for all slots before any is waited for (BeginsAhead).
template <class E>
void begin_slots(const EnvBatch& batch, const StepIo& io, int64_t begin, int64_t end,
                 bool resetting) {
  const auto& params = params_of<E>(batch);
  for (int64_t i = begin; i < end; ++i) {
    if (resetting || head_of(batch, i).needs_reset) {
      // reset draws the same again
      Rng rng = resetting ? Rng(batch.seed, env_stream(batch, i), 0) : rng_of(batch, i);
      E::begin_reset(params, state_of<E>(batch, i), rng);
      continue;
    }
    ActionRoom<E> room;
    E::begin_step(params, state_of<E>(batch, i), actions_of<E>(batch, io, i, room));
  }
}

/// Batch and pointers by value and everything inlined: else each row written could have changed
/// them, and they would be read again for every slot.
template <class E>
[[gnu::flatten]] void step_slots_cpu(const EnvBatch batch, const StepIo io, int64_t begin,
                                     int64_t end) {
  if constexpr (BeginsAhead<E>) begin_slots<E>(batch, io, begin, end, /*resetting=*/false);
  for (int64_t i = begin; i < end; ++i) step_slot<E>(batch, io, i);
}

/// Steps as they are drawn, then as they are seen.
template <class E, class Run>
void run_slots_cpu(const EnvBatch& batch, const StepIo& io, int64_t begin, int64_t end,
                   const Run& run) {
  if constexpr (shows_images<E>())
    if (batch.view.active()) {
      run(batch, drawn_io(batch.view, batch, io), begin, end);
      return see_images_cpu(batch, io, begin, end);
    }
  run(batch, io, begin, end);
}

/// Settings of an environment that shows images, its own first: that is where slots look for them.
template <class E>
struct ViewedParams {
  typename E::Params env;
  ImageTransform images;
};

/// Of a slot without what a view keeps there.
template <class E>
size_t own_slot_bytes(const void* params) {
  return kSlotHead + state_bytes_of<E>(*static_cast<const typename E::Params*>(params));
}

/// The saved form of slot i's state.
inline std::byte* saved_state(const EnvBatch& batch, int64_t i) {
  return batch.slots + size_t(i) * batch.slot_bytes + kSlotHead;
}

/// Whether slot i, read from a file, holds a state that E can be in.
template <class E>
bool load_state(const EnvBatch& batch, int64_t i) {
  [[maybe_unused]] const auto& params = params_of<E>(batch);
  [[maybe_unused]] auto& state = state_of<E>(batch, i);
  if constexpr (host_only<E>()) return E::load(params, state, saved_state(batch, i));
  else if constexpr (HasAssets<E>) {
    if constexpr (requires { E::valid(params, assets_of<E>(batch), state); })
      return E::valid(params, assets_of<E>(batch), state);
  } else if constexpr (requires { E::valid(params, state); }) {
    return E::valid(params, state);
  }
  return true;
}

template <class E>
EnvEntry make_env_entry(const char* name) {
  using Own = typename E::Params;
  using Params = std::conditional_t<shows_images<E>(), ViewedParams<E>, Own>;
  using State = typename E::State;
  expect_environment<E>();
  static_assert(host_only<E>() || kSlotHead % alignof(State) == 0);
  EnvEntry entry{};
  entry.name = name;
  entry.summary = E::kSummary;
  if constexpr (requires { E::bots(); }) entry.bots = E::bots();
  if constexpr (requires { &E::paint; })
    entry.paint = [](const EnvBatch& batch, int64_t i, Canvas& canvas) {
      const State& state = state_of<E>(batch, i);
      if constexpr (HasAssets<E>) E::paint(params_of<E>(batch), assets_of<E>(batch), state, canvas);
      else E::paint(params_of<E>(batch), state, canvas);
    };
  if constexpr (requires { E::end_idle(); }) entry.end_idle = E::end_idle;
  entry.params_bytes = sizeof(Params);
  entry.make_params = [](void* p) { new (p) Params{}; };
  entry.describe = [](OptionTable& table, void* p) {
    Own::describe(table, *static_cast<Own*>(p));
    if constexpr (shows_images<E>())
      table.section("image", [p](OptionTable& t) {
        ImageTransform::describe(t, static_cast<Params*>(p)->images);
      });
  };
  entry.check = []([[maybe_unused]] const void* p) {
    if constexpr (requires(const Own& q) { Own::check(q); })
      Own::check(*static_cast<const Own*>(p));
    if constexpr (shows_images<E>()) {
      const EnvSpec shown = E::spec(*static_cast<const Own*>(p));
      static_cast<const Params*>(p)->images.seen(shown);
      if (shown.agents > 1 && image_view(static_cast<const Params*>(p)->images, shown, 0).active())
        throw Error("[env] env.image.* is for environments of one agent, got one of " +
                    std::to_string(shown.agents) +
                    "; leave it out, and let the environment resize, grey or stack what it shows");
    }
  };
  entry.settle = []([[maybe_unused]] void* p) -> std::string {
    if constexpr (requires(Own& q) { Own::settle(q); }) return Own::settle(*static_cast<Own*>(p));
    else return "";
  };
  entry.idle = []([[maybe_unused]] const void* p,
                  [[maybe_unused]] std::string_view name) -> std::string {
    if constexpr (requires(const Own& q) { Own::idle(q, name); })
      return Own::idle(*static_cast<const Own*>(p), name);
    else return "";
  };
  entry.judged_with = []([[maybe_unused]] const void* p) -> std::vector<std::string> {
    if constexpr (requires(const Own& q) { Own::judged_with(q); })
      return Own::judged_with(*static_cast<const Own*>(p));
    else return {};
  };
  entry.spec = [](const void* p) {
    EnvSpec shown = E::spec(*static_cast<const Own*>(p));
    if constexpr (!agents_by_settings<E>()) shown.agents = agents_of<E>();
    shown.ends_apart = EndsApart<E> && shown.agents > 1;
    if constexpr (shows_images<E>())
      return static_cast<const Params*>(p)->images.seen(std::move(shown));
    else return shown;
  };
  entry.view = []([[maybe_unused]] const void* p) -> ImageView {
    if constexpr (shows_images<E>())
      return image_view(static_cast<const Params*>(p)->images, E::spec(*static_cast<const Own*>(p)),
                        own_slot_bytes<E>(p));
    else return {};
  };
  entry.slot_bytes = [](const void* p) {
    size_t bytes = own_slot_bytes<E>(p);
    if constexpr (shows_images<E>())
      bytes = viewed_bytes(image_view(static_cast<const Params*>(p)->images,
                                      E::spec(*static_cast<const Own*>(p)), bytes),
                           bytes);
    return (bytes + 63) / 64 * 64;
  };
  entry.held_bytes = []([[maybe_unused]] const void* p) -> size_t {
    if constexpr (requires(const Own& own) { E::held_bytes(own); })
      return E::held_bytes(*static_cast<const Own*>(p));
    else return 0;
  };
  entry.program_bytes = []([[maybe_unused]] const void* p,
                           [[maybe_unused]] int64_t count) -> size_t {
    if constexpr (requires(const Own& own) { E::program_bytes(own, count); })
      return E::program_bytes(*static_cast<const Own*>(p), count);
    else return 0;
  };
  entry.asset_bytes = []([[maybe_unused]] const void* p) -> size_t {
    if constexpr (HasAssets<E>) return asset_bytes_of<E>(*static_cast<const Own*>(p));
    else return 0;
  };
  entry.make_assets = []([[maybe_unused]] const void* p, [[maybe_unused]] std::byte* assets) {
    if constexpr (HasAssets<E>)
      E::make_assets(*static_cast<const Own*>(p), *reinterpret_cast<typename E::Assets*>(assets));
  };
  entry.host_only = host_only<E>();
  entry.at_once = BeginsAhead<E> ? std::numeric_limits<int32_t>::max() : host_only<E>() ? 1 : 64;
  if constexpr (requires { E::kLibrary; }) entry.library = E::kLibrary;
  if constexpr (host_only<E>()) {
    entry.make_states = [](int64_t count) -> void* { return new State[size_t(count)]; };
    entry.free_states = [](void* states) { delete[] static_cast<State*>(states); };
  }
  entry.save_states = []([[maybe_unused]] const EnvBatch& batch, [[maybe_unused]] int64_t begin,
                         [[maybe_unused]] int64_t end) {
    if constexpr (host_only<E>())
      for (int64_t i = begin; i < end; ++i) {
        const auto& params = params_of<E>(batch);
        std::memset(saved_state(batch, i), 0, state_bytes_of<E>(params));
        E::save(params, state_of<E>(batch, i), saved_state(batch, i));
      }
  };
  entry.load_states = [](const EnvBatch& batch, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      if (!load_state<E>(batch, i)) return i;
    return end;
  };
  entry.reset_cpu = [](const EnvBatch& batch, const StepIo& io, int64_t begin, int64_t end) {
    run_slots_cpu<E>(batch, io, begin, end,
                     [](const EnvBatch& b, const StepIo& to, int64_t first, int64_t last) {
                       if constexpr (BeginsAhead<E>)
                         begin_slots<E>(b, to, first, last, /*resetting=*/true);
                       for (int64_t i = first; i < last; ++i) reset_slot<E>(b, to, i);
                     });
  };
  entry.step_cpu = [](const EnvBatch& batch, const StepIo& io, int64_t begin, int64_t end) {
    run_slots_cpu<E>(batch, io, begin, end, step_slots_cpu<E>);
  };
  if constexpr (BeginsAhead<E>)
    entry.begin_cpu = [](const EnvBatch& batch, const StepIo& io, int64_t begin, int64_t end) {
      begin_slots<E>(batch, io, begin, end, /*resetting=*/false);
      if (begin < end) E::send_begun(params_of<E>(batch), state_of<E>(batch, begin));
    };
  entry.take_totals_cpu = [](const EnvBatch& batch, EpisodeTotals& into, int64_t begin,
                             int64_t end) {
    for (int64_t i = begin; i < end; ++i) into += take_slot_totals(head_of(batch, i));
  };
  return entry;
}

}  // namespace maglev
