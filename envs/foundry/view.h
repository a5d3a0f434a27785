#pragma once
// What an agent of the foundry observes: a window of the map around it, north up, a byte a cell;
// what it has; and what it may do.

#include <cstring>
#include <vector>

#include "base/env/env.h"
#include "envs/foundry/phases.h"

namespace maglev::foundry {

// A code of the window. Nothing is 0, a wall 1; the others are machines, of a kind and at work or
// at rest, and agents, friend or foe and how they are.
constexpr uint8_t kSeenMachine = 2, kResting = 16, kSeenAgent = 128;
constexpr uint8_t kFriend = 1, kFrozen = 2, kArmed = 4;
constexpr int kFacingShift = 3, kSignalShift = 5;

// Channels of a cell as networks see it: a wall; a machine of each kind, and whether it works; an
// agent, friend or foe, whether it is frozen and has a laser, where it faces (1 east, -1 west; 1
// south, -1 north), and signals 1 to 3, for 0 is none.
constexpr int kWallSeen = 0, kMachineSeen = 1, kWorks = kMachineSeen + kKinds;
constexpr int kFriendSeen = kWorks + 1, kFoeSeen = kFriendSeen + 1;
constexpr int kFrozenSeen = kFoeSeen + 1, kArmedSeen = kFrozenSeen + 1;
constexpr int kFacesEast = kArmedSeen + 1, kFacesSouth = kFacesEast + 1;
constexpr int kSignalSeen = kFacesSouth + 1, kChannels = kSignalSeen + 3;

/// [256 codes, channels]. Codes that do not occur are empty.
inline std::vector<float> palette() {
  std::vector<float> table(256 * kChannels, 0.f);
  for (int code = 0; code < 256; ++code) {
    float* channel = table.data() + code * kChannels;
    const int kind = code % kResting - kSeenMachine;
    if (code >= kSeenAgent) {
      channel[code & kFriend ? kFriendSeen : kFoeSeen] = 1;
      channel[kFrozenSeen] = code & kFrozen ? 1 : 0;
      channel[kArmedSeen] = code & kArmed ? 1 : 0;
      constexpr float east[kDirections] = {0, 1, 0, -1}, south[kDirections] = {-1, 0, 1, 0};
      const int facing = code >> kFacingShift & 3, signal = code >> kSignalShift & 3;
      channel[kFacesEast] = east[facing];
      channel[kFacesSouth] = south[facing];
      if (signal > 0) channel[kSignalSeen + signal - 1] = 1;
    } else if (code == kWall) {
      channel[kWallSeen] = 1;
    } else if (code < 2 * kResting && kind >= 0 && kind < kKinds) {
      channel[kMachineSeen + kind] = 1;
      channel[kWorks] = code < kResting ? 1 : 0;
    }
  }
  return table;
}

// Numbers of the vector: of each good n / (n + 3); whether there is an ore to smelt, and what a
// heart takes; the four directions it may face; how long it is frozen, as a share of the longest;
// signals 1 to 3; its team's number, from 0 to 1; the share of the episode that is over.
constexpr int kCarried = 0, kCanSmelt = kCarried + kGoods, kCanOffer = kCanSmelt + 1;
constexpr int kFaces = kCanOffer + 1, kFrozenFor = kFaces + kDirections;
constexpr int kSignalShown = kFrozenFor + 1, kTeam = kSignalShown + 3, kTime = kTeam + 1;
constexpr int kNumbers = kTime + 1;

/// The code of a cell as an agent of `team` sees it.
MAGLEV_HD uint8_t seen(const Settings& p, const State& s, uint8_t code, uint8_t team) {
  if (code < kMachineCode) return code;
  if (code < kAgentCode) {
    const int32_t machine = code - kMachineCode;
    return uint8_t(kSeenMachine + p.kind_of(machine) + (s.resting[machine] ? kResting : 0));
  }
  const Agent& a = s.agents[code - kAgentCode];
  return uint8_t(kSeenAgent | (a.team == team ? kFriend : 0) | (a.frozen ? kFrozen : 0) |
                 (a.goods[kLaser] ? kArmed : 0) | a.facing << kFacingShift |
                 a.signal << kSignalShift);
}

MAGLEV_HD void observe(const Settings& p, const State& s, int agent, const ObsOut& out) {
  const Agent& a = s.agents[agent];
  const Map map(p, s);
  // rows of the window, walled where they leave the map
  const int32_t side = 2 * p.view + 1, left = a.x - p.view;
  const int32_t begin = left < 0 ? -left : 0;
  const int32_t end = left + side > p.width ? p.width - left : side;
  auto* window = out.as<uint8_t>(0);
  for (int32_t i = 0; i < side; ++i, window += side) {
    const int32_t y = a.y + i - p.view;
    if (y < 0 || y >= p.height) {
      memset(window, kWall, size_t(side));
      continue;
    }
    const uint8_t* row = map.row(y) + left;
    for (int32_t j = 0; j < begin; ++j) window[j] = kWall;
    for (int32_t j = begin; j < end; ++j)
      window[j] = row[j] < kMachineCode ? row[j] : seen(p, s, row[j], a.team);
    for (int32_t j = end; j < side; ++j) window[j] = kWall;
  }

  auto* own = out.as<float>(1);
  for (int k = 0; k < kNumbers; ++k) own[k] = 0;
  for (int g = 0; g < kGoods; ++g) own[kCarried + g] = float(a.goods[g]) / float(a.goods[g] + 3);
  own[kCanSmelt] = a.goods[kOre] > 0;
  own[kCanOffer] = a.goods[kBattery] >= recipe_of(p, kAltar).battery;
  own[kFaces + a.facing] = 1;
  own[kFrozenFor] = float(a.frozen) / float(p.freeze);
  if (a.signal > 0) own[kSignalShown + a.signal - 1] = 1;
  own[kTeam] = float(a.team) / float(kAgents - 1);
  own[kTime] = float(s.steps) / float(p.max_steps);

  for (int32_t k = 0; k < kActions; ++k) out.mask[k] = may(p, s, agent, k);
}

}  // namespace maglev::foundry
