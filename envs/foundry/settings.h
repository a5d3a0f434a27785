#pragma once
// What can be set about the foundry, and the numbers that follow from it.

#include <cstdint>
#include <string>

#include "base/config/options.h"
#include "base/core/error.h"
#include "base/core/hd.h"

namespace maglev::foundry {

/// Agents of a world.
constexpr int kAgents = 8;
/// Most machines of a map: their numbers fit a cell's byte.
constexpr int kMaxMachines = 64;

/// What stands on a map, in the order in which machines are numbered.
enum Kind : uint8_t { kMine, kSmelter, kAltar, kForge, kArmory, kKinds };
/// What an agent carries.
enum Good : uint8_t { kOre, kBattery, kHeart, kLaser, kArmor, kGoods };

struct Settings {
  int32_t width = 24, height = 24, view = 5, max_steps = 1000;
  int32_t mines = 12, smelters = 6, altars = 6, forges = 2, armories = 2, walls = 40;
  int32_t teams = 2;
  bool combat = true, signals = false, easy_altar = false, shaped = false;
  int32_t carry = 50, freeze = 10;
  int32_t mine_cooldown = 50, smelter_cooldown = 25, altar_cooldown = 10, craft_cooldown = 10;
  float team_share = 0.5f, ore_reward = 0.1f, battery_reward = 0.2f;

  static void describe(OptionTable& t, Settings& p) {
    t.add("width", p.width, "columns of the map", {.min = 4, .max = 64, .unit = "cells"});
    t.add("height", p.height, "rows of the map", {.min = 4, .max = 64, .unit = "cells"});
    t.add("view", p.view, "radius of the square view", {.min = 1, .max = 8, .unit = "cells"});
    t.add("max_steps", p.max_steps, "episode limit", {.min = 1, .max = 1e9, .unit = "steps"});
    t.add("mines", p.mines, "machines that give ore", {.min = 0, .max = kMaxMachines});
    t.add("smelters", p.smelters, "machines that make a battery of an ore",
          {.min = 0, .max = kMaxMachines});
    t.add("altars", p.altars, "machines that make a heart of batteries",
          {.min = 0, .max = kMaxMachines});
    t.add("forges", p.forges, "machines that make a laser of an ore and two batteries",
          {.min = 0, .max = kMaxMachines});
    t.add("armories", p.armories, "machines that make an armor of three ores",
          {.min = 0, .max = kMaxMachines});
    t.add("walls", p.walls, "cells that nobody enters", {.min = 0, .max = 4096});
    t.add("teams", p.teams, "agents are dealt out to teams in turn; 8: each for itself",
          {.min = 1, .max = kAgents});
    t.add("combat", p.combat, "lasers can be fired at other teams");
    t.add("signals", p.signals, "agents can show one of four signals");
    t.add("easy_altar", p.easy_altar, "a heart takes one battery instead of three");
    t.add("carry", p.carry, "most an agent has of each good but hearts", {.min = 3, .max = 255});
    t.add("freeze", p.freeze, "steps that one who was hit misses",
          {.min = 1, .max = 200, .unit = "steps"});
    const Rule cooldown{.min = 1, .max = 255, .unit = "steps"};
    t.add("mine_cooldown", p.mine_cooldown, "from one ore of a mine to its next", cooldown);
    t.add("smelter_cooldown", p.smelter_cooldown, "from one battery of a smelter to its next",
          cooldown);
    t.add("altar_cooldown", p.altar_cooldown, "from one heart of an altar to its next", cooldown);
    t.add("craft_cooldown", p.craft_cooldown,
          "from one laser of a forge or armor of an armory to its next", cooldown);
    t.add("team_share", p.team_share, "share of its team's mean in an agent's reward",
          {.min = 0, .max = 1});
    t.add("shaped", p.shaped, "ore and batteries are rewarded besides hearts");
    t.add("ore_reward", p.ore_reward, "of an ore that is mined, when shaped",
          {.min = -100, .max = 100});
    t.add("battery_reward", p.battery_reward, "of a battery that is made, when shaped",
          {.min = -100, .max = 100});
  }

  static void check(const Settings& p) {
    if (p.machines() > kMaxMachines)
      throw Error("[env] a map has at most " + std::to_string(kMaxMachines) +
                  " machines, got env.mines + env.smelters + env.altars + env.forges + "
                  "env.armories = " +
                  std::to_string(p.machines()));
    // places are drawn until one is empty, and who stands there wants room to walk
    const int32_t taken = p.machines() + p.walls + kAgents;
    if (2 * taken > p.cells())
      throw Error("[env] machines, walls and agents may take half of the " +
                  std::to_string(p.width) + " x " + std::to_string(p.height) + " = " +
                  std::to_string(p.cells()) + " cells at most, got " + std::to_string(taken) +
                  "; lower env.walls or enlarge the map");
  }

  MAGLEV_HD int32_t cells() const { return width * height; }
  MAGLEV_HD int32_t machines() const { return mines + smelters + altars + forges + armories; }

  MAGLEV_HD Kind kind_of(int32_t machine) const {
    if (machine < mines) return kMine;
    if (machine < mines + smelters) return kSmelter;
    if (machine < mines + smelters + altars) return kAltar;
    return machine < mines + smelters + altars + forges ? kForge : kArmory;
  }
};

/// What a machine takes and makes, and how long it then rests.
struct Recipe {
  int32_t ore, battery;
  Good makes;
  int32_t cooldown;
};
MAGLEV_HD Recipe recipe_of(const Settings& p, Kind kind) {
  switch (kind) {
    case kMine:
      return {0, 0, kOre, p.mine_cooldown};
    case kSmelter:
      return {1, 0, kBattery, p.smelter_cooldown};
    case kAltar:
      return {0, p.easy_altar ? 1 : 3, kHeart, p.altar_cooldown};
    case kForge:
      return {1, 2, kLaser, p.craft_cooldown};
    default:
      return {3, 0, kArmor, p.craft_cooldown};
  }
}

/// Hearts are no burden, but they fit a byte.
MAGLEV_HD int32_t most_of(const Settings& p, int32_t good) {
  return good == kHeart ? 255 : p.carry;
}

}  // namespace maglev::foundry
