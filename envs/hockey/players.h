#pragma once
// The scripted players as rows for the engine's tables, the same for both hockey environments.

#include <span>

#include "base/env/entry.h"
#include "envs/hockey/opponent.h"

namespace maglev::rink {

template <bool strong>
constexpr Bot bot(const char* name, const char* summary) {
  static_assert(sizeof(Opponent) <= kMaxBotState);
  return {.name = name,
          .summary = summary,
          .state_bytes = sizeof(Opponent),
          .begin = [](void* state, Rng& rng) { static_cast<Opponent*>(state)->begin(rng); },
          .act =
              [](const BotTurn& turn) {
                static_cast<Opponent*>(turn.state)
                    ->act(strong, reinterpret_cast<const float*>(turn.obs[0]), turn.rng,
                          turn.continuous);
              }};
}

inline std::span<const Bot> scripted_players() {
  static constexpr Bot bots[] = {
      bot<false>("weak", "the original's weak scripted opponent: steers gently"),
      bot<true>("strong", "the original's strong scripted opponent: steers hard")};
  return bots;
}

}  // namespace maglev::rink
