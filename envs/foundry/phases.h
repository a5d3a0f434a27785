#pragma once
// A step of the foundry in phases: attacks, gifts, use of machines, moves, signals, clocks. Within
// a phase everyone wishes by what was before it, and of those who want the same the first by rank
// has it: what happens depends neither on the order of agents nor on their numbers.

#include "envs/foundry/world.h"

namespace maglev::foundry {

/// Four steps: towards an empty cell they move, towards a machine they use it, and always turn.
enum Action : int32_t { kStay, kNorth, kEast, kSouth, kWest, kAttack, kGive, kSignal0 };
constexpr int kActions = kSignal0 + 4;

/// How far a laser reaches, three cells wide.
constexpr int kReach = 3;

/// Goods that an agent made in this step.
struct Made {
  int32_t goods[kGoods];
};
/// What happened to all.
struct Happened {
  int32_t made[kGoods], hits, blocked, gifts;
};

/// Whether an agent may do this: what its mask says.
MAGLEV_HD bool may(const Settings& p, const State& s, int agent, int32_t action) {
  const Agent& a = s.agents[agent];
  if (action == kStay) return true;
  if (a.frozen || action < 0 || action >= kActions) return false;
  if (action <= kWest) return true;
  if (action == kAttack) return p.combat && a.goods[kLaser] > 0;
  if (action >= kSignal0) return p.signals;
  const Map map(p, s);
  return a.goods[kBattery] > 0 && map.agent_in(map.cell_before(a, a.facing, 1, 0)) >= 0;
}

/// One step of one world.
class Turn {
 public:
  MAGLEV_HD Turn(const Settings& p, State& s, const int32_t* actions) : p_(p), s_(s), map_(p, s) {
    for (int i = 0; i < kAgents; ++i) {
      // whatever a broken sampler gives: what may not be done is nothing
      action_[i] = may(p, s, i, actions[i]) ? actions[i] : kStay;
      rank_[i] = rank_of(s, i);
    }
  }

  /// `made`: [kAgents].
  MAGLEV_HD void play(Made* made, Happened& happened) {
    for (int i = 0; i < kAgents; ++i) s_.agents[i].last = uint8_t(action_[i]);
    attack(happened);
    give(happened);
    for (int i = 0; i < kAgents; ++i)
      if (steps(i)) s_.agents[i].facing = uint8_t(action_[i] - kNorth);
    use(made, happened);
    move();
    for (int i = 0; i < kAgents; ++i)
      if (action_[i] >= kSignal0) s_.agents[i].signal = uint8_t(action_[i] - kSignal0);
    run_clocks();
  }

 private:
  MAGLEV_HD bool steps(int i) const { return action_[i] >= kNorth && action_[i] <= kWest; }

  /// Whether agent i's wish is the first among those for the same.
  MAGLEV_HD bool first(const int32_t* wish, int i) const {
    for (int j = 0; j < kAgents; ++j)
      if (wish[j] == wish[i] && rank_[j] < rank_[i]) return false;
    return true;
  }

  /// Whom agent i's laser meets: the nearest of another team, straight ahead before left before
  /// right; -1: nobody.
  MAGLEV_HD int32_t aimed_at(int i) const {
    const Agent& a = s_.agents[i];
    for (int ahead = 1; ahead <= kReach; ++ahead)
      for (int k = 0; k < 3; ++k) {
        const int aside = k == 0 ? 0 : k == 1 ? -1 : 1;
        const int met = map_.agent_in(map_.cell_before(a, a.facing, ahead, aside));
        if (met >= 0 && s_.agents[met].team != a.team) return met;
      }
    return kNowhere;
  }

  MAGLEV_HD void attack(Happened& happened) {
    int32_t target[kAgents];
    bool any = false;
    for (int i = 0; i < kAgents; ++i) {
      target[i] = kNowhere;
      if (action_[i] != kAttack) continue;
      any = true;
      target[i] = aimed_at(i);
    }
    if (!any) return;
    // a shot costs its laser, whether it hits or not; loot is of what all have then
    for (int i = 0; i < kAgents; ++i) s_.agents[i].goods[kLaser] -= action_[i] == kAttack;
    uint8_t had[kAgents][kGoods];
    for (int i = 0; i < kAgents; ++i)
      for (int g = 0; g < kGoods; ++g) had[i][g] = s_.agents[i].goods[g];
    for (int i = 0; i < kAgents; ++i) {
      if (target[i] == kNowhere || !first(target, i)) continue;
      Agent &thief = s_.agents[i], &victim = s_.agents[target[i]];
      // one hit a step, so nobody else has frozen it since; there is nothing more to take
      if (victim.frozen) continue;
      if (had[target[i]][kArmor] > 0) {
        --victim.goods[kArmor];
        ++happened.blocked;
        continue;
      }
      ++happened.hits;
      victim.frozen = uint8_t(p_.freeze + 1);
      for (int g = 0; g < kGoods; ++g) {
        // hearts are safe; what the thief cannot carry stays
        if (g == kHeart) continue;
        const int32_t room = p_.carry - had[i][g], there = had[target[i]][g];
        const auto taken = uint8_t(there < room ? there : room);
        victim.goods[g] -= taken;
        thief.goods[g] += taken;
      }
    }
    // who was hit does nothing more
    for (int i = 0; i < kAgents; ++i)
      if (s_.agents[i].frozen) action_[i] = kStay;
  }

  MAGLEV_HD void give(Happened& happened) {
    int32_t receiver[kAgents];
    for (int i = 0; i < kAgents; ++i) {
      receiver[i] = kNowhere;
      if (action_[i] != kGive) continue;
      const int32_t to = map_.agent_in(map_.cell_before(s_.agents[i], s_.agents[i].facing, 1, 0));
      if (to >= 0 && s_.agents[to].goods[kBattery] < p_.carry) receiver[i] = to;
    }
    for (int i = 0; i < kAgents; ++i) {
      if (receiver[i] == kNowhere || !first(receiver, i)) continue;
      --s_.agents[i].goods[kBattery];
      ++s_.agents[receiver[i]].goods[kBattery];
      ++happened.gifts;
    }
  }

  /// The machine that agent i steps against, where it works and has what it wants; else kNowhere.
  MAGLEV_HD int32_t machine_for(int i) const {
    const Agent& a = s_.agents[i];
    const int32_t cell = map_.cell_before(a, a.facing, 1, 0);
    if (cell == kNowhere) return kNowhere;
    const uint8_t code = map_[cell];
    if (code < kMachineCode || code >= kAgentCode) return kNowhere;
    const int32_t machine = code - kMachineCode;
    const Recipe recipe = recipe_of(p_, p_.kind_of(machine));
    const bool works = s_.resting[machine] == 0 && a.goods[kOre] >= recipe.ore &&
                       a.goods[kBattery] >= recipe.battery &&
                       a.goods[recipe.makes] < most_of(p_, recipe.makes);
    return works ? machine : kNowhere;
  }

  MAGLEV_HD void use(Made* made, Happened& happened) {
    int32_t machine[kAgents];
    for (int i = 0; i < kAgents; ++i) machine[i] = steps(i) ? machine_for(i) : kNowhere;
    for (int i = 0; i < kAgents; ++i) {
      if (machine[i] == kNowhere || !first(machine, i)) continue;
      const Recipe recipe = recipe_of(p_, p_.kind_of(machine[i]));
      Agent& a = s_.agents[i];
      a.goods[kOre] -= uint8_t(recipe.ore);
      a.goods[kBattery] -= uint8_t(recipe.battery);
      ++a.goods[recipe.makes];
      s_.resting[machine[i]] = uint8_t(recipe.cooldown);
      ++made[i].goods[recipe.makes];
      ++happened.made[recipe.makes];
    }
  }

  MAGLEV_HD void move() {
    int32_t cell[kAgents];
    for (int i = 0; i < kAgents; ++i) {
      cell[i] = steps(i) ? map_.cell_before(s_.agents[i], s_.agents[i].facing, 1, 0) : kNowhere;
      if (cell[i] != kNowhere && map_[cell[i]] != kEmpty) cell[i] = kNowhere;
    }
    for (int i = 0; i < kAgents; ++i) {
      if (cell[i] == kNowhere || !first(cell, i)) continue;
      Agent& a = s_.agents[i];
      map_[map_.cell_of(a)] = kEmpty;
      map_[cell[i]] = uint8_t(kAgentCode + i);
      a.x = uint8_t(cell[i] % p_.width), a.y = uint8_t(cell[i] / p_.width);
    }
  }

  /// What begins in a step counts it: a machine used now works again `cooldown` steps later.
  MAGLEV_HD void run_clocks() {
    for (int i = 0; i < kAgents; ++i) s_.agents[i].frozen -= s_.agents[i].frozen > 0;
    for (int32_t m = 0; m < p_.machines(); ++m) s_.resting[m] -= s_.resting[m] > 0;
    ++s_.steps;
  }

  const Settings& p_;
  State& s_;
  Map map_;
  int32_t action_[kAgents];
  uint32_t rank_[kAgents];
};

}  // namespace maglev::foundry
