#pragma once
// Makes the EnvEntry of an environment from its struct. CMake compiles one file per environment
// folder that includes this and the environment's header.

#include <new>

#include "base/env/batch.h"

namespace maglev {

/// Batch and pointers by value and everything inlined: else each row written could have changed
/// them, and they would be read again for every slot.
template <class E>
[[gnu::flatten]] void step_slots_cpu(const EnvBatch batch, const StepIo io, int64_t begin,
                                     int64_t end) {
  for (int64_t i = begin; i < end; ++i) step_slot<E>(batch, io, i);
}

template <Env E>
EnvEntry make_env_entry(const char* name) {
  using Params = typename E::Params;
  static_assert(agents_of<E>() >= 1 && agents_of<E>() <= 64);
  static_assert(kSlotHead % alignof(typename E::State) == 0);
  EnvEntry entry{};
  entry.name = name;
  entry.summary = E::kSummary;
  if constexpr (requires { E::bots(); }) entry.bots = E::bots();
  if constexpr (requires { &E::paint; })
    entry.paint = [](const void* p, const std::byte* state, Canvas& canvas) {
      E::paint(*static_cast<const Params*>(p), *reinterpret_cast<const typename E::State*>(state),
               canvas);
    };
  entry.agents = agents_of<E>();
  entry.params_bytes = sizeof(Params);
  entry.make_params = [](void* p) { new (p) Params{}; };
  entry.describe = [](OptionTable& table, void* p) {
    Params::describe(table, *static_cast<Params*>(p));
  };
  entry.check = []([[maybe_unused]] const void* p) {
    if constexpr (requires(const Params& q) { Params::check(q); })
      Params::check(*static_cast<const Params*>(p));
  };
  entry.spec = [](const void* p) { return E::spec(*static_cast<const Params*>(p)); };
  entry.slot_bytes = [](const void* p) {
    size_t bytes = kSlotHead + state_bytes_of<E>(*static_cast<const Params*>(p));
    return (bytes + 63) / 64 * 64;
  };
  entry.reset_cpu = [](const EnvBatch& batch, const StepIo& io, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) reset_slot<E>(batch, io, i);
  };
  entry.step_cpu = [](const EnvBatch& batch, const StepIo& io, int64_t begin, int64_t end) {
    step_slots_cpu<E>(batch, io, begin, end);
  };
  entry.take_totals_cpu = [](const EnvBatch& batch, EpisodeTotals& into, int64_t begin,
                             int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      take_slot_totals(*reinterpret_cast<SlotHead*>(batch.slots + size_t(i) * batch.slot_bytes),
                       into);
  };
  return entry;
}

}  // namespace maglev
