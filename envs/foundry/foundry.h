#pragma once
// The foundry: eight agents on a map of machines, from mines to hearts. Ore is smelted to
// batteries, an altar makes a heart of three; forges and armories make lasers, which freeze and
// rob, and armor against them. docs/foundry.md states the rules.
//
// Observation columns: `window`, the cells around an agent as byte codes, and `vector`, what it has
// and what time it is. One action of eleven, masked. An episode is only ever truncated.

#include <span>

#include "base/env/env.h"
#include "envs/foundry/greedy.h"
#include "envs/foundry/paint.h"
#include "envs/foundry/view.h"

namespace maglev {

struct Foundry {
  static constexpr const char* kSummary =
      "eight agents in teams on a chain of machines from ore to hearts";
  static constexpr int kAgents = foundry::kAgents;

  using Params = foundry::Settings;
  using State = foundry::State;

  static size_t state_bytes(const Params& p) { return sizeof(State) + size_t(p.cells()); }

  static bool valid(const Params& p, const State& s) { return foundry::valid(p, s); }

  static EnvSpec spec(const Params& p) {
    const int64_t side = 2 * p.view + 1;
    return {
        .observations = {{.name = "window",
                          .dtype = DType::u8,
                          .shape = {side * side},
                          .cells = {.bits = 8,
                                    .grid = {side, side},
                                    .channels = foundry::kChannels,
                                    .policy = foundry::palette()}},
                         {.name = "vector", .dtype = DType::f32, .shape = {foundry::kNumbers}}},
        .action = {.heads = {foundry::kActions},
                   .masked = true,
                   .names = {"stay", "north", "east", "south", "west", "attack", "give", "signal 0",
                             "signal 1", "signal 2", "signal 3"}},
        .max_steps = p.max_steps,
        .events = {"hearts", "batteries", "ore", "lasers", "armors", "hits", "blocked", "gifts"}};
  }

  static std::span<const Bot> bots() {
    static constexpr Bot table[] = {
        {.name = "greedy",
         .summary = "to the nearest machine in sight that it has a use for, else straight on",
         .state_bytes = sizeof(foundry::Walk),
         .begin =
             [](void* state, Rng& rng) {
               static_cast<foundry::Walk*>(state)->direction =
                   int32_t(rng.below(foundry::kDirections));
             },
         .act =
             [](const BotTurn& turn) {
               foundry::Greedy player(*static_cast<const Params*>(turn.params),
                                      reinterpret_cast<const uint8_t*>(turn.obs[0]),
                                      reinterpret_cast<const float*>(turn.obs[1]));
               turn.discrete[0] = player.act(*static_cast<foundry::Walk*>(turn.state), turn.rng);
             }}};
    return table;
  }

  MAGLEV_HD static void reset(const Params& p, State& s, Rng& rng) { foundry::begin(p, s, rng); }

  MAGLEV_HD static void step(const Params& p, State& s, const Actions& action, Rng&, StepOut& out) {
    foundry::Made made[kAgents] = {};
    foundry::Happened happened = {};
    foundry::Turn(p, s, action.discrete).play(made, happened);
    for (int i = 0; i < kAgents; ++i) out.reward[i] = reward(p, s, made, i);
    out.truncated = s.steps >= p.max_steps;

    // in the order of spec's events
    out.count(0, float(happened.made[foundry::kHeart]));
    out.count(1, float(happened.made[foundry::kBattery]));
    out.count(2, float(happened.made[foundry::kOre]));
    out.count(3, float(happened.made[foundry::kLaser]));
    out.count(4, float(happened.made[foundry::kArmor]));
    out.count(5, float(happened.hits));
    out.count(6, float(happened.blocked));
    out.count(7, float(happened.gifts));
  }

  MAGLEV_HD static void observe(const Params& p, const State& s, int agent, const ObsOut& out) {
    foundry::observe(p, s, agent, out);
  }

  static void paint(const Params& p, const State& s, Canvas& canvas) {
    foundry::paint(p, s, canvas);
  }

 private:
  MAGLEV_HD static float worth(const Params& p, const int32_t* goods) {
    const auto hearts = float(goods[foundry::kHeart]);
    if (!p.shaped) return hearts;
    return hearts + p.battery_reward * float(goods[foundry::kBattery]) +
           p.ore_reward * float(goods[foundry::kOre]);
  }

  /// An agent's own and its team's mean. What a team made is added up in whole numbers, in which
  /// order does not matter.
  MAGLEV_HD static float reward(const Params& p, const State& s, const foundry::Made* made,
                                int agent) {
    int32_t mates = 0, team[foundry::kGoods] = {};
    for (int i = 0; i < kAgents; ++i) {
      if (s.agents[i].team != s.agents[agent].team) continue;
      ++mates;
      for (int g = 0; g < foundry::kGoods; ++g) team[g] += made[i].goods[g];
    }
    return (1 - p.team_share) * worth(p, made[agent].goods) +
           p.team_share * (worth(p, team) / float(mates));
  }
};

}  // namespace maglev
